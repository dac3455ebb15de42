/* `stockade lab locks`: see lab_locks.c. */
#ifndef LAB_LOCKS_H
#define LAB_LOCKS_H

int lab_locks_main(int argc, char *argv[]);

#endif
