/* `stockade serve`: the service itself. */
#ifndef SERVE_H
#define SERVE_H

/* ARGV after the subcommand; returns the exit status. */
int serve_main(int argc, char *argv[]);

#endif
