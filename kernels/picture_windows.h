// Where windows lie over a picture.
#pragma once

namespace tandem {

// Square windows over a picture, whose tokens are its points, row by row (Swin, Liu et al. 2021). A
// picture of no whole windows is filled up at the right and below. With a shift the windows lie so
// much further right and below; the last ones reach over the edge to the other side.
struct PictureWindows {
  int height, width;  // of the picture
  int window;         // side, at most kMostWindow
  int shift = 0;      // below `window`

  static constexpr int kMostWindow = 32;
  int rows() const { return (height - 1) / window + 1; }  // of windows
  int columns() const { return (width - 1) / window + 1; }
  bool is_filled_up() const { return height % window != 0 || width % window != 0; }
};

}  // namespace tandem
