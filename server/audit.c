/*
 * `stockade audit`: counts the whole ledger and gives the verdict. It looks at
 * the orders themselves; what a load generator or a segment says is not
 * asked. May run beside servers that sell from the same database, or on what a
 * kill -9 left behind.
 */
#include "server/commands.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/store.h"
#include "server/http/reply.h"

enum { AUDIT_BALANCED = 0, AUDIT_VIOLATED = 1, AUDIT_CANNOT_TELL = 2 };

struct options {
    const char *db;
    const char *acked; /* file of order ids; NULL = none */
    int json, help;    /* flags */
};

struct ledger {
    struct store_audit_line *lines; /* a segment each */
    size_t lines_n;
    char *text;         /* the file */
    const char **acked; /* ids in it */
    size_t acked_n;
    bool out_of_memory;
};

static const char help[] =
    "usage: stockade audit [--db URL] [--json] [--acked FILE]\n\n"
    "  --db URL      the database, as for serve [sqlite:stockade.db]\n"
    "  --json        the whole verdict as one JSON object\n"
    "  --acked FILE  ids of orders that were acknowledged, one a\n"
    "                line: each that is not stored counts as lost\n\n"
    "It only looks: what is wrong it reports, and mends nothing.\n"
    "Exit status: 0 balanced, 1 violated, 2 could not tell.\n";

static void on_line(void *ctx, const struct store_audit_line *line)
{
    struct ledger *ledger = ctx;
    void *more =
        reallocarray(ledger->lines, ledger->lines_n + 1, sizeof(*line));

    /* The verdict needs all lines, so that a lack of memory is noted, and the
     * audit goes on to its end: its connection must be closed. */
    ledger->out_of_memory |= !more;
    if (!more)
        return;
    ledger->lines = more;
    ledger->lines[ledger->lines_n++] = *line;
}

static bool acked_read(const char *path, struct ledger *ledger)
{
    FILE *file = fopen(path, "r");
    size_t size = 0;
    ssize_t n = file ? getdelim(&ledger->text, &size, '\0', file) : -1;
    bool is_torn = n > 0 && ledger->text[n - 1] == '\0';
    /* getdelim() gives -1 for an empty file as well, and for one that has no room in
     * memory, which is no end. */
    bool is_read = file && !ferror(file) && !is_torn && (n >= 0 || feof(file));
    char *rest = n > 0 ? ledger->text : NULL, *line; /* else it is not set */

    /* An id and the blank behind it take two bytes at least. */
    ledger->acked = calloc((size_t)(n > 0 ? n : 0) / 2 + 1, sizeof(line));
    ledger->out_of_memory |= !ledger->acked;
    while (is_read && ledger->acked && (line = strsep(&rest, " \t\r\n")))
        if (*line)
            ledger->acked[ledger->acked_n++] = line;
    if (!is_read)
        fprintf(stderr, "stockade: --acked %s: %s\n", path,
                is_torn ? "it has a NUL byte, behind which nothing was read"
                        : strerror(errno));
    if (file)
        fclose(file);
    return is_read;
}

static void print_text(const struct store_audit *a, const struct ledger *ledger)
{
    printf("%10s %8s %10s %10s %10s %10s %10s\n", "product", "segment",
           "initial", "stock", "sold", "orders", "drift");
    for (size_t i = 0; i < ledger->lines_n; i++) {
        const struct store_audit_line *l = &ledger->lines[i];

        printf("%10" PRId64 " %8" PRId64 " %10" PRId64 " %10" PRId64
               " %10" PRId64 " %10" PRId64 " %+10" PRId64 "%s\n",
               l->product_id, l->segment, l->initial, l->stock, l->sold,
               l->orders, l->drift, l->retired ? "  retired" : "");
    }
    printf("\n%" PRId64 " orders placed, %" PRId64 " cancelled\n", a->orders,
           a->cancelled);
    if (a->held || a->expired || a->late)
        printf("%" PRId64 " units not paid yet, %" PRId64 " orders expired, "
               "%" PRId64 " late payments to be refunded\n",
               a->held, a->expired, a->late);
    if (ledger->text) /* 0 as well: an empty list has proved nothing */
        printf("%zu acknowledged orders looked up\n", ledger->acked_n);
#define ROW(member, name, what)                                                \
    if (*(what) && a->member)                                                  \
        printf("%" PRId64 " %s\n", a->member, what);
#include "db/audit.inc"
    printf("%s\n", a->balanced ? "balanced"
                               : "VIOLATED: nothing was changed, the audit "
                                 "only looks");
}

static int audit(const struct options *options, struct ledger *ledger)
{
    struct store_reader *reader;
    struct store_error error = {""};
    struct store_audit verdict;
    char *json = NULL;
    enum store_status status;

    status = store_reader_open_url(options->db, &reader, &error);
    if (status == STORE_OK) {
        /* A file that is damaged may still give sums that look right. */
        status = store_intact(reader, &error);
        if (status == STORE_OK)
            status = store_audit(reader, on_line, ledger, ledger->acked,
                                 ledger->acked_n, &verdict, &error);
        store_reader_close(reader);
    }
    if (status != STORE_OK || ledger->out_of_memory) {
        /* In what is no proper URL there may be a password. */
        fprintf(stderr, "stockade: cannot audit %s: %s\n",
                status == STORE_MISUSE ? "it" : options->db,
                ledger->out_of_memory ? "out of memory" : error.text);
        return AUDIT_CANNOT_TELL;
    }
    if (options->json)
        json = render_audit(&verdict, ledger->lines, ledger->lines_n);
    if (options->json && !json)
        return AUDIT_CANNOT_TELL;
    if (json)
        fputs(json, stdout);
    else
        print_text(&verdict, ledger);
    free(json);
    return verdict.balanced ? AUDIT_BALANCED : AUDIT_VIOLATED;
}

int audit_main(int argc, char *argv[])
{
    struct options options = {.db = "sqlite:stockade.db"};
    const struct option flags[] = {
        {"db", required_argument, NULL, 'd'},
        {"json", no_argument, &options.json, true},
        {"acked", required_argument, NULL, 'a'},
        {"help", no_argument, &options.help, true},
        {0},
    };
    struct ledger ledger = {0};
    int c, status = AUDIT_CANNOT_TELL;

    while ((c = getopt_long(argc, argv, ":", flags, NULL)) != -1) {
        if (c == 'd') {
            options.db = optarg;
        } else if (c == 'a') {
            options.acked = optarg;
        } else if (c != 0) {
            fprintf(stderr,
                    "stockade: audit takes --db URL, --json and --acked FILE, "
                    "not '%s'\n",
                    argv[optind - 1]);
            return status;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "stockade: audit does not take '%s'\n", argv[optind]);
        return status;
    }
    if (options.help) {
        printf("%s", help);
        return 0;
    }
    if (!options.acked || acked_read(options.acked, &ledger))
        status = audit(&options, &ledger);
    free(ledger.acked);
    free(ledger.text);
    free(ledger.lines);
    return status;
}
