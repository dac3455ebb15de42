/*
 * The laboratory's page beside a service: `stockade lab serve` as a process of its own, on
 * a port of loopback, or for all if it IS_PUBLIC. The service has no route of it, and
 * what the page plays touches neither its locks nor its store. It ends with the service,
 * however that ends.
 */
#ifndef LIVE_BESIDE_H
#define LIVE_BESIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* From the main thread, because the page ends with the thread that began it. Waits until
 * the page can be opened. False and a text: it cannot, and nothing runs. */
bool beside_open(int64_t port, bool is_public, pid_t *pid, char *error,
                 size_t error_size);

/* Waits until its games have ended. 0 = there is none. */
void beside_close(pid_t pid);

#endif
