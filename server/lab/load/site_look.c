/* What an experiment sees of its site from outside: the ledger, and what the
 * redis-server has been asked. See site.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/lab/load/site.h"

enum { INFO_BYTES_MAX = 65536, INFO_S = 5 };

static void on_line(void *stock, const struct store_audit_line *line)
{
    *(int64_t *)stock += line->stock;
}

bool site_audit(struct site *site, struct store_audit *audit, int64_t *stock)
{
    struct store_reader *reader;
    struct store_error error = {""};
    enum store_status status =
        store_reader_open_url(site->db_url, &reader, &error);

    if (status == STORE_OK) {
        status = store_audit(reader, on_line, stock, NULL, 0, audit, &error);
        store_reader_close(reader);
    }
    return status == STORE_OK ||
           site_fail(site, "cannot audit %s: %s", site->db_url, error.text);
}

/* A reply is as long as its first line says: "$1234". */
static bool is_whole(const char *reply, size_t n)
{
    const char *body = strchr(reply, '\n');

    return *reply != '$' || (body && n >= (size_t)(body + 1 - reply) +
                                              strtoul(reply + 1, NULL, 10) + 2);
}

/* A question in words, as Redis takes it from a person: no library is needed for
 * this one. */
static bool ask(const char *path, const char *question, char *reply,
                size_t size)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct timeval most = {.tv_sec = INFO_S};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t n = 0;
    ssize_t got = 1;

    memcpy(at.sun_path, path, strnlen(path, sizeof(at.sun_path) - 1));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    *reply = '\0';
    if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
        send(fd, question, strlen(question), MSG_NOSIGNAL) > 0)
        while (got > 0 && n + 1 < size && (n == 0 || !is_whole(reply, n))) {
            got = recv(fd, reply + n, size - 1 - n, 0);
            n += got > 0 ? (size_t)got : 0;
            reply[n] = '\0';
        }
    (void)close(fd);
    return *reply == '$' && is_whole(reply, n);
}

bool site_requests(struct site *site, uint64_t *n)
{
    static const char field[] = "total_reads_processed:";
    char reply[INFO_BYTES_MAX];
    const char *at = NULL;

    if (ask(site->redis_path, "INFO stats\r\n", reply, sizeof(reply)))
        at = strstr(reply, field);
    *n = at ? strtoull(at + strlen(field), NULL, 10) : 0;
    return at || site_fail(site, "redis-server does not answer INFO stats");
}
