// The program `tandem` of a wheel: libtandem.so has all of it.
#include "python/native/library.h"

int main(int argc, char** argv) { return tandem_main(argc, argv); }
