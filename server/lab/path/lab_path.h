/* `stockade lab path`: gets ARGV from its name on, and returns the exit status. */
#ifndef PATH_LAB_PATH_H
#define PATH_LAB_PATH_H

int lab_path_main(int argc, char *argv[]);

#endif
