/*
 * `stockade lab locks`: the conformance suite on the command line. It starts
 * its own redis-servers; of other servers it has to be given the address. The
 * README's table of locks is its output.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/base/clock.h"
#include "server/lab/conform/report.h"
#include "server/lab/lab.h"

enum { AS_EXPECTED = 0, DIFFERENT = 1, COULD_NOT_RUN = 2 };

struct options {
    const char *lock; /* NULL = all */
    struct conform_servers servers;
    unsigned jobs;
    bool markdown;
    bool json;
    bool help;
};

static void help(void)
{
    printf(
        "usage: stockade lab locks [--lock NAME] [--markdown | --json]\n"
        "                          [--redis URL] [--sql URL] [--zk URL]\n"
        "                          [--jobs N]\n"
        "                          [--zk-ensemble URL --zk-node COMMAND]\n\n"
        "Measures which properties every lock holds: processes take it, are\n"
        "stopped and killed, and private redis-servers are lost under them.\n"
        "A lock that has to fail, and does not, is as wrong as one that "
        "fails.\n"
        "Takes half a minute. Ctrl-C ends it, and leaves nothing behind.\n\n"
        "  --lock NAME  this one only, with the evidence; or your own, "
        "FILE.lock\n"
        "  --markdown   the table of the README\n"
        "  --json       all of it as one JSON object, with the evidence\n"
        "  --redis URL  this one, of any kind that serve takes, for the locks "
        "on\n"
        "               one server: without D, M and M2, which take it apart\n"
        "  --sql URL    a MariaDB or MySQL, for the locks that need one:\n"
        "               mysql:unix:PATH?db=NAME&user=NAME\n"
        "  --zk URL     a ZooKeeper, for the locks that need one: "
        "zk:HOST:PORT\n"
        "  --zk-ensemble URL, --zk-node COMMAND\n"
        "               three that may be killed: COMMAND kill HOST:PORT does\n"
        "               it, and COMMAND start HOST:PORT undoes it\n"
        "  --jobs N     locks at a time, 1 to 16 [three per processor]\n\n"
        "Exit status: 0 all as expected, 1 differences, 2 no lock could be "
        "run.\n");
}

static unsigned jobs_default(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    return processors > 0 && processors < 6 ? 3 * (unsigned)processors : 16;
}

/* 0: it is none. */
static unsigned jobs_read(const char *text)
{
    char *end;
    long jobs = strtol(text, &end, 10);

    return *end == '\0' && jobs >= 1 && jobs <= 16 ? (unsigned)jobs : 0;
}

static int options_read(int argc, char *argv[], struct options *options)
{
    static const struct option flags[] = {
        {"lock", required_argument, NULL, 'l'},
        {"redis", required_argument, NULL, 'r'},
        {"sql", required_argument, NULL, 's'},
        {"zk", required_argument, NULL, 'z'},
        {"zk-ensemble", required_argument, NULL, 'e'},
        {"zk-node", required_argument, NULL, 'k'},
        {"jobs", required_argument, NULL, 'n'},
        {"markdown", no_argument, NULL, 'm'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    int c;

    *options = (struct options){.jobs = jobs_default()};
    while ((c = getopt_long(argc, argv, ":h", flags, NULL)) != -1) {
        if (c == 'l')
            options->lock = optarg;
        else if (c == 'r')
            options->servers.redis_url = optarg;
        else if (c == 's')
            options->servers.sql_url = optarg;
        else if (c == 'z')
            options->servers.zk_url = optarg;
        else if (c == 'e')
            options->servers.zk_ensemble = optarg;
        else if (c == 'k')
            options->servers.zk_node = optarg;
        else if (c == 'n')
            options->jobs = jobs_read(optarg);
        else if (c == 'm')
            options->markdown = true;
        else if (c == 'j')
            options->json = true;
        else if (c == 'h')
            options->help = true;
        else
            return fprintf(stderr, "stockade: lab locks does not take '%s'\n",
                           argv[optind - 1]);
    }
    if (options->jobs == 0)
        return fprintf(stderr, "stockade: lab locks: --jobs takes 1 to 16\n");
    if (optind < argc)
        return fprintf(stderr, "stockade: lab locks does not take '%s'\n",
                       argv[optind]);
    return 0;
}

/* A line on a terminal that rewrites itself. */
static void on_progress(void *ctx, size_t done, size_t all)
{
    const uint64_t *began_ms = ctx;

    fprintf(stderr, "\rmeasuring: %zu of %zu checks, %u s ", done, all,
            (unsigned)((clock_ms() - *began_ms) / 1000));
    if (done == all)
        fprintf(stderr, "\r\033[K");
}

static int run(const struct options *options)
{
    static struct suite suite; /* 100 KB: too much for a stack */
    uint64_t began_ms = clock_ms();
    char error[EXPECTED_ERROR_BYTES];

    suite.servers = options->servers;
    suite.jobs = options->jobs;
    if (options->lock && !expected_lock(options->lock, error, sizeof(error))) {
        fprintf(stderr, "stockade: %s\n", error);
        return COULD_NOT_RUN;
    }
    (void)suite_fill(&suite, options->lock);
    if (!suite_run(&suite, isatty(STDERR_FILENO) ? on_progress : NULL,
                   &began_ms, error, sizeof(error))) {
        fprintf(stderr, "stockade: lab locks: %s\n", error);
        return COULD_NOT_RUN;
    }
    if (options->json)
        report_json(&suite);
    else if (options->markdown)
        report_markdown(&suite);
    else
        report_text(&suite);
    (void)fflush(stdout);
    report_differences(&suite);
    if (suite_differences(&suite) > 0)
        return DIFFERENT;
    return suite_measured(&suite) > 0 ? AS_EXPECTED : COULD_NOT_RUN;
}

int lab_locks_main(int argc, char *argv[])
{
    struct options options;

    if (options_read(argc, argv, &options) != 0)
        return COULD_NOT_RUN;
    if (options.help) {
        help();
        return 0;
    }
    return run(&options);
}
