/*
 * A private redis-server: the embedded default, `--redis spawn`. It listens on
 * a Unix socket beside the database and nowhere else, keeps nothing on disk,
 * and ends with us, however we end.
 *
 * It may lose everything it knows at any moment; that costs nothing, because
 * it holds locks and no stock, and fencing tokens go on from the database.
 */
#ifndef REDIS_PROC_H
#define REDIS_PROC_H

#include <stdbool.h>
#include <stddef.h>

struct redis_proc;

bool redis_proc_is_installed(void);

/* One that is not started yet: the first redis_proc_tend() does. Its socket is
 * DB_PATH.redis, or in /tmp if that is no name for one. No start is waited for while
 * STOP_FD is readable. NULL and a text in ERROR if there is no place for it. */
struct redis_proc *redis_proc_new(const char *db_path, int stop_fd, char *error,
                                  size_t error_size);

/* The same without a STOP_FD, and starts redis-server; waits, at most ten seconds, until
 * it takes connections. NULL and a text in ERROR if it does not. From the main thread
 * only: the server dies with the thread that started it. */
struct redis_proc *redis_proc_start(const char *db_path, char *error,
                                    size_t error_size);

/* "unix:PATH", for libdlock; lives as long as the process object. */
const char *redis_proc_url(const struct redis_proc *proc);

/* To be polled for reading; changes with every redis_proc_tend(). */
int redis_proc_fd(const struct redis_proc *proc);

/* To be called when redis_proc_fd() is readable: throws away what the server said, and
 * if there is none, or it has died, starts another. false if it could not: call again
 * later. From the main thread only. */
bool redis_proc_tend(struct redis_proc *proc, char *error, size_t error_size);

/* For the laboratory, whose checks are forked from the process that started it.
 * SIGKILL, as a crash: what it knew is gone, and it is gone when this returns.
 * redis_proc_tend() starts another in its place. */
void redis_proc_kill(struct redis_proc *proc);

/* SIGSTOP, as a hang; and SIGCONT. */
void redis_proc_signal(const struct redis_proc *proc, int number);

/* Ends the server and waits for it. NULL is fine. */
void redis_proc_stop(struct redis_proc *proc);

#endif
