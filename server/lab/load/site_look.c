/* A look of an experiment at its site from outside: the ledger, and what the
 * redis-server has been asked. See site.h. */
#include <stdlib.h>
#include <string.h>

#include "server/base/redis_proc.h"
#include "server/lab/load/site.h"
#include "server/lab/servers/peek.h"

enum { INFO_BYTES_MAX = 65536 };

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

bool site_requests(struct site *site, uint64_t *n)
{
    static const char field[] = "total_reads_processed:";
    const char *words[] = {"INFO", "stats"}, *at = NULL;
    char reply[INFO_BYTES_MAX];
    struct peek *peek = peek_open(redis_proc_url(site->redis), site->error,
                                  sizeof(site->error));

    if (peek && peek_send(peek, 2, words, reply, sizeof(reply)))
        at = strstr(reply, field);
    peek_close(peek);
    *n = at ? strtoull(at + strlen(field), NULL, 10) : 0;
    return at || site_fail(site, "redis-server does not answer INFO stats");
}
