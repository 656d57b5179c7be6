// Names of languages, in English.
const names = new Intl.DisplayNames(['en'], {type: 'language', fallback: 'none'});
// Of models' languages, those that CLDR has no name for.
const RARE = {
  acm: 'Mesopotamian Arabic', acq: 'Ta’izzi-Adeni Arabic', ajp: 'South Levantine Arabic', apc: 'North Levantine Arabic',
  azb: 'South Azerbaijani', cjk: 'Chokwe', fuv: 'Nigerian Fulfulde', hne: 'Chhattisgarhi', kbp: 'Kabiyè', taq: 'Tamasheq',
  'taq-Tfng': 'Tamasheq (Tifinagh)',
};
export function nameOf(code) {
  try {
    return names.of(code) || RARE[code] || code;
  } catch {  // no code of a language
    return RARE[code] || code;
  }
}
export const byName = (languages) => languages.sort((a, b) => a.name.localeCompare(b.name, 'en'));
