/*
 * A server process of a test: started, awaited until its log says that it is
 * ready, stopped by its number. It dies with the test, however that ends.
 *
 * Anything that goes wrong aborts the test program with the server's last
 * words: without a server there is nothing to test.
 */
#ifndef SERVER_PROC_H
#define SERVER_PROC_H

#include <stdbool.h>
#include <sys/types.h>

struct server_proc {
    const char *what; /* for messages */
    pid_t pid;        /* 0 = down */
};

/*
 * Runs ARGV, which is looked for in PATH, and waits until it prints READY. With
 * IF_NOT, false if it prints that instead: it is killed, and may be tried anew.
 */
bool server_proc_start(struct server_proc *proc, char *const argv[],
                       const char *ready, const char *if_not);

/* Runs ARGV to its end. */
void server_proc_run(const char *what, char *const argv[]);

/* SIGKILL. Nothing, if it is down. */
void server_proc_kill(struct server_proc *proc);

/* SIGSTOP and SIGCONT: connections stay open, nothing is answered. */
void server_proc_pause(const struct server_proc *proc);
void server_proc_resume(const struct server_proc *proc);

/* One of the three by its word, "kill", "pause" or "resume"; false: it is none. */
bool server_proc_do(struct server_proc *proc, const char *how);

/* A port where nobody listens. Not of those that the kernel gives to clients: one of
 * them could have it when the server is started once more. */
unsigned server_proc_free_port(const char *what);

/* A message, with errno's text, and the end. */
void server_proc_die(const char *what, const char *why)
    __attribute__((noreturn));

#endif
