/* For the actor: what a program's own steps have left open ends with it. */
#ifndef PROGRAM_STEPS_H
#define PROGRAM_STEPS_H

#include "server/lab/programs/program.h"

void program_steps_end(void);

#endif
