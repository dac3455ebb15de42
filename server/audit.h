/* `stockade audit`: what the ledger says. */
#ifndef AUDIT_H
#define AUDIT_H

/*
 * ARGV after the subcommand; returns the exit status: 0 balanced, 1 violated,
 * 2 could not tell.
 */
int audit_main(int argc, char *argv[]);

#endif
