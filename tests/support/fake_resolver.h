/*
 * A resolver for tests: it says what it was told, fails, or hangs until it is let
 * go.
 */
#ifndef FAKE_RESOLVER_H
#define FAKE_RESOLVER_H

#include <netinet/in.h>
#include <stdbool.h>

/* From now on names are looked up here; it knows nothing yet. */
void fake_resolver_begin(void);

/* One more place of every name; and none again. */
void fake_resolver_tell(struct sockaddr_in at);
void fake_resolver_forget(void);

/* It fails with one of EAI_. */
void fake_resolver_fail(int error);

void fake_resolver_hang(bool on);

/* Ends that, and waits until what it says of HOST has arrived. */
void fake_resolver_let_go(const char *host, const char *port);

unsigned fake_resolver_asked_n(void);

#endif
