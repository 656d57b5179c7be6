"""The child that reads files of sound and images for `tandem`, with PyAV and Pillow (docs/decoder.md). A program of its own:
nothing else of this package imports it."""
