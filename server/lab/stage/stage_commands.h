/* The two commands of stockade-lab: each gets ARGV after its name, and returns the
 * exit status: 0 nothing broke, 1 something did, 2 it could not run. */
#ifndef STAGE_COMMANDS_H
#define STAGE_COMMANDS_H

int explore_main(int argc, char *argv[]);
int replay_main(int argc, char *argv[]);

#endif
