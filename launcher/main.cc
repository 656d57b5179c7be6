// tandem: the one binary.
#include "launcher/run_program.h"

int main(int argc, char** argv) { return tandem::launcher::run_program(argc, argv); }
