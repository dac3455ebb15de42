/* `stockade lab`: experiments with locks. Both get ARGV from its name on, and return the
 * exit status. */
#ifndef LAB_H
#define LAB_H

int lab_main(int argc, char *argv[]);

/* Each command that plays locks on the stage, `explore` and `replay` as well. They are in
 * a program of its own, stockade-lab, that lies beside this one; stage_main.c says why.
 * Returns only if that cannot be started. */
int lab_stage_main(int argc, char *argv[]);

#endif
