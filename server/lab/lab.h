/* `stockade lab`: experiments with locks. */
#ifndef LAB_H
#define LAB_H

int lab_main(int argc, char *argv[]);

#endif
