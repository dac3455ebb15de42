/*
 * `stockade lab serve`: the laboratory as a page. For one person on their own machine:
 * it listens on loopback, and answers only those that ask for it by that name, because
 * any page that the person visits can make their browser ask here.
 *
 * libmicrohttpd has a thread for each connection: a request may wait for a game, and
 * there are few.
 */
#include "server/lab/serve/lab_serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/lab/scene/stage_options.h"

enum {
    PORT = 8078,
    PORT_OF_HTTP = 80,
    CONNECTIONS_MAX = 64,
    IDLE_S = 120,
    HOST_BYTES = 64,
};

static const char lab_html[] =
#include "static/lab.html.inc"
    ;
static const char lab_css[] =
#include "static/colours.css.inc"

#include "static/lab.css.inc"
    ;

#define SCRIPT "text/javascript; charset=utf-8"

/* A row of scripts.inc, which the build makes: {"/lab.js", SCRIPT, "its text"}. */
static const struct file {
    const char *path, *type, *text;
} files[] = {
    {"/lab", "text/html; charset=utf-8", lab_html},
    {"/lab.css", "text/css; charset=utf-8", lab_css},
#include "server/lab/serve/scripts.inc"
};

static int64_t port = PORT;
static int is_public;

/* The part of a request's body that is here. */
struct request {
    char body[API_BODY_BYTES_MAX + 1];
    size_t n;
    bool is_too_long;
};

/* ---- replies ------------------------------------------------------------ */

/* Nothing is loaded from elsewhere, and no script is inline. */
static const char *const headers[][2] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src "
     "'self'; img-src data:; base-uri 'none'; form-action 'none'; "
     "frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cache-Control", "no-cache"},
};

/* TEXT is copied. */
static enum MHD_Result queue(struct MHD_Connection *connection, unsigned status,
                             const char *type, const char *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)text, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result done;

    if (!response)
        return MHD_NO;
    (void)MHD_add_response_header(response, "Content-Type", type);
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        (void)MHD_add_response_header(response, headers[i][0], headers[i][1]);
    if (status == MHD_HTTP_FOUND)
        (void)MHD_add_response_header(response, "Location", "/lab");
    done = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return done;
}

static enum MHD_Result refuse(struct MHD_Connection *connection,
                              unsigned status, const char *error)
{
    char text[300];

    /* An error here is a text of ours: no sign in it would need to be quoted. */
    (void)snprintf(text, sizeof(text), "{\"error\": \"%s\"}", error);
    return queue(connection, status, "application/json", text);
}

/* ---- who asks ----------------------------------------------------------- */

static const char *field(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* By a name of this machine. A page from elsewhere can have a name that leads here, but
 * its own name is in Host. */
static bool is_for_us(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    char expected[HOST_BYTES];

    /* Behind --lab-public the name is whatever others call this machine by. */
    if (is_public)
        return true;
    /* The port counts as well: another server of this machine has pages, too. Browsers
     * leave that of http out. */
    for (size_t i = 0; host && i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(expected, sizeof(expected), "%s:%lld", names[i],
                       (long long)port);
        if (strcasecmp(host, expected) == 0 ||
            (port == PORT_OF_HTTP && strcasecmp(host, names[i]) == 0))
            return true;
    }
    return false;
}

static enum MHD_Result answer(struct MHD_Connection *connection,
                              const char *path, const char *method,
                              const struct request *request)
{
    bool is_read = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    const char *type = field(connection, "Content-Type");
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    int peer = info ? info->connect_fd : -1;
    struct api_reply reply;
    enum MHD_Result done;

    /* The name must be right before anything is answered: a page from elsewhere could
     * else read what is here. */
    if (!is_for_us(field(connection, "Host")))
        return refuse(connection, MHD_HTTP_FORBIDDEN,
                      "this laboratory answers to localhost; --lab-public "
                      "lets others in");
    if (request->is_too_long)
        return refuse(connection, MHD_HTTP_CONTENT_TOO_LARGE,
                      "the body is too long");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]) && is_read; i++)
        if (strcmp(files[i].path, path) == 0)
            return queue(connection, MHD_HTTP_OK, files[i].type, files[i].text);
    if (is_read && strcmp(path, "/") == 0)
        return queue(connection, MHD_HTTP_FOUND, "text/plain", "");
    /* A form of another page cannot send this type without asking first, which nobody here
     * answers. */
    if (strcmp(method, "POST") == 0 &&
        (!type || strncasecmp(type, "application/json", 16) != 0))
        return refuse(connection, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                      "the body must be application/json");
    reply = api_call(method, path, request->body, request->n, peer);
    done = queue(connection, reply.status, "application/json",
                 reply.text ? reply.text : "");
    /* If the page was left while its game began, nobody will ever end it. */
    if (reply.begun[0] && api_has_left(peer))
        (void)visitors_end(reply.begun);
    free(reply.text);
    return done;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection,
                                  const char *path, const char *method,
                                  const char *version, const char *data,
                                  size_t *size, void **context)
{
    struct request *request = *context;

    (void)cls;
    (void)version;
    /* The first call has the head alone: the body comes in parts. */
    if (!request) {
        request = calloc(1, sizeof(*request));
        *context = request;
        return request ? MHD_YES : MHD_NO;
    }
    if (*size == 0)
        return answer(connection, path, method, request);
    /* A body that is too long is taken to its end: a client that still sends reads
     * no answer. */
    if (*size > API_BODY_BYTES_MAX - request->n) {
        request->is_too_long = true;
    } else {
        memcpy(request->body + request->n, data, *size);
        request->n += *size;
    }
    /* *SIZE is what was left over: nothing. */
    *size = 0;
    return MHD_YES;
}

static void on_completed(void *cls, struct MHD_Connection *connection,
                         void **context, enum MHD_RequestTerminationCode code)
{
    (void)cls;
    (void)connection;
    (void)code;
    free(*context);
}

/* ---- the command -------------------------------------------------------- */

static const char help[] =
#include "server/lab/help/serve.txt.inc"
    ;

/* NULL: said why not. */
static struct MHD_Daemon *listen_at_port(void)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(is_public ? INADDR_ANY : INADDR_LOOPBACK)};
    const union MHD_DaemonInfo *info;
    struct MHD_Daemon *daemon;

    /* MHD_start_daemon() leaves that of bind() in it, but does not promise it. */
    errno = 0;
    daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION, 0,
        NULL, NULL, on_request, NULL, MHD_OPTION_SOCK_ADDR, &address,
        /* A connection has a thread: so their number is bounded, and idle ones end. */
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        /* One address must leave some to others; half, because a proxy's visitors have
         * the same. */
        MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        is_public ? (unsigned)CONNECTIONS_MAX / 2 : 0,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_END);

    if (!daemon)
        (void)fail_aloud("lab serve: cannot listen on port %lld%s%s; --port 0 "
                         "takes one that is free",
                         (long long)port, errno ? ": " : "",
                         errno ? strerror(errno) : "");
    else if ((info = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT)))
        port = info->port;
    return daemon;
}

/* Until a signal ends it. They are blocked in all threads, because one of them waits. */
static int run(void)
{
    struct MHD_Daemon *daemon;
    struct fail error;
    sigset_t ends;
    int number;

    /* The mask must be there before any thread: all of them begin with it. */
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGINT);
    (void)sigaddset(&ends, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &ends, NULL);
    /* A game that has ended must not end all others: writing to it fails instead. */
    (void)signal(SIGPIPE, SIG_IGN);
    if (!visitors_open(&error))
        return fail_to_run("lab serve: %s", error.text);
    daemon = listen_at_port();
    if (daemon) {
        printf(
            "the laboratory: http://127.0.0.1:%lld/lab    (Ctrl-C ends it)\n",
            (long long)port);
        (void)fflush(stdout);
        while (sigwait(&ends, &number) != 0)
            continue;
    }
    /* The games end first: a request that waits for one is answered then, and MHD waits
     * for its threads. */
    visitors_close();
    MHD_stop_daemon(daemon);
    return daemon ? 0 : 2;
}

int lab_serve_main(int argc, char *argv[])
{
    static const struct option flags[] = {
        {"port", required_argument, NULL, 'p'},
        {"lab-public", no_argument, &is_public, 1},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    int c;

    while ((c = getopt_long(argc, argv, "h", flags, NULL)) != -1) {
        if (c == 'h') {
            printf(help, PORT, VISITORS_MAX);
            return 0;
        }
        if (c == '?')
            fprintf(stderr, "stockade lab serve --help lists the flags\n");
        if (c == '?' || (c == 'p' && !stage_options_number("port", optarg, 0,
                                                           UINT16_MAX, &port)))
            return 2;
    }
    return optind < argc
               ? fail_to_run("lab serve does not take '%s'", argv[optind])
               : run();
}
