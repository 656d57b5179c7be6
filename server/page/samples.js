// Texts to try the model with, in the model's own task.
export const PACKAGES = {  // examples/texts
  spreadsheets: 'This Python module reads and writes spreadsheets in the OpenDocument format. Cells can hold numbers, dates, text and formulas, and styles are kept. It has no dependencies outside the standard library.',
  weather: 'This library provides functions to read observations from small weather stations that are attached to a serial port or to USB. It converts units, smooths noisy wind measurements and computes the dew point and the heat index. This package contains the header files and the static library that are needed to build programs with it.',
  dates: 'This package provides a Perl module that parses dates and times written in many formats and converts them to a standard form. Time zones and leap years are handled.',
};
export const ARTICLE = 'The town of Marwick will close its main bridge to cars from April, after engineers found cracks in two of the six piers. Buses, bicycles and pedestrians may still cross, but lorries and private cars have to take the road along the northern shore, which adds twenty minutes to most journeys.\n\nThe council had planned to repair the bridge next year. It brought the work forward when divers, who look at the piers every spring, reported that one crack had grown by four centimetres since their last visit. "We would rather lose a summer of traffic than take a risk," the mayor said on Tuesday.\n\nShop owners on the island fear for their busiest months. They have asked for a free ferry between the market and the station, and for lower rents until the autumn. The council will vote on both in two weeks. The repairs are to cost 3.1 million and to end in October.';
export const SENTENCES = {
  en: 'The night train leaves at ten past nine. Please keep your ticket until the end of the journey.',
  de: 'Der Nachtzug fährt um zehn nach neun ab. Bitte bewahren Sie Ihre Fahrkarte bis zum Ende der Reise auf.',
  fr: 'Le marché ouvre à sept heures le samedi. On y trouve du pain, des fromages et les premières fraises.',
  es: 'La biblioteca cierra a las ocho, pero los libros se pueden devolver en el buzón junto a la entrada.',
  ja: '駅前の図書館は午後八時に閉まります。本は入口の横の箱に返すことができます。',
};
export const LINE = 'The quick brown fox jumps over 13 lazy dogs.';
