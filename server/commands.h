/* The commands of the program: each gets ARGV after its name, and returns the exit
 * status. `stockade lab` has a header of its own. */
#ifndef COMMANDS_H
#define COMMANDS_H

int serve_main(int argc, char *argv[]); /* the service itself */
int audit_main(int argc, char *argv[]); /* 0 balanced, 1 violated, 2 unknown */

#endif
