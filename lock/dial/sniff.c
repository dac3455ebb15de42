/*
 * The beginning of a TLS handshake, to which a server that knows TLS says something
 * of TLS, if only an alert. A Redis without TLS takes it for half a command.
 */
#include "lock/dial/sniff.h"

#include "lock/dial/dial.h"

enum { ALERT = 0x15, HANDSHAKE = 0x16 };

/* A ClientHello (RFC 5246): TLS 1.2, 32 bytes that need not be random, no session, one
 * cipher, no compression. */
static const char hello[] = "\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03"
                            "01234567890123456789012345678901"
                            "\x00\x00\x02\x00\x2f\x01\x00";

bool dlock_sniff_tls(const struct dlock_address *address, uint64_t until_ms)
{
    struct dlock_address plain = *address;
    struct dlock_link link;
    char first = 0;

    plain.user[0] = plain.password[0] = '\0';
    plain.database = 0;
    if (dlock_dial(&plain, until_ms, &link, NULL) != DLOCK_OK)
        return false;
    if (dlock_net_send(link, hello, sizeof(hello) - 1, until_ms) == 0)
        (void)dlock_net_receive(link, 0, &first, 1, until_ms);
    dlock_net_close(&link);
    return first == ALERT || first == HANDSHAKE;
}
