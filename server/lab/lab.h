/* `stockade lab`: experiments with locks. Each gets ARGV from its name on, and returns the
 * exit status. */
#ifndef LAB_H
#define LAB_H

int lab_main(int argc, char *argv[]);
/* `lab locks`: conform/lab_locks.c. */
int lab_locks_main(int argc, char *argv[]);

/* Each command that plays locks on the stage, `explore` and `replay` as well. They are in
 * a program of its own, stockade-lab, that lies beside this one; server/lab/stage/ says
 * why. Returns only if that cannot be started. */
int lab_stage_main(int argc, char *argv[]);

#endif
