/* The commands that play locks on the stage. They are in a program of its own,
 * stockade-lab, that lies beside this one; server/lab/stage/ says why. */
#ifndef LAB_STAGE_H
#define LAB_STAGE_H

int explore_main(int argc, char *argv[]);
int replay_main(int argc, char *argv[]);
int lab_stage_main(int argc, char *argv[]); /* lab list, show, run */

#endif
