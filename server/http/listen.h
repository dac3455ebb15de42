/*
 * The listening socket: from the text of --listen to a file descriptor.
 *
 * It is made here and handed to libmicrohttpd, which never closes it as long
 * as it is quiesced before it is stopped; so it is closed where it was opened.
 */
#ifndef LISTEN_H
#define LISTEN_H

#include <stddef.h>

#define LISTEN_ADDRESS_BYTES 64

/*
 * Binds WHERE, "HOST:PORT" or "[HOST]:PORT", port 0 = any, and listens.
 * ADDRESS is filled with what it became. -1, and ERROR says why.
 */
int listen_open(const char *where, char address[LISTEN_ADDRESS_BYTES],
                char *error, size_t error_size);

#endif
