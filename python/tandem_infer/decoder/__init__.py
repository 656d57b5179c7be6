"""The child that reads files of sound, images and PDF for `tandem`, with PyAV, Pillow and PDFium (docs/design/decoder.md). A program of
its own: nothing else of this package imports it."""
