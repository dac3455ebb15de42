/*
 * Customers who do not wait for each other: orders at a constant rate, whatever
 * the server does. wrk's connections send the next order when the last is
 * answered, so a server that stands still is asked for nothing, and the pause
 * hardly shows ("coordinated omission"). Here order I is due at start + I/RATE
 * and its latency counts from then, also if no connection was free to send it.
 *
 *   open_load PORT RATE SECONDS CONNECTIONS
 *
 * Says "started" on standard error when the first order is due, and one JSON
 * object on standard output at the end. Exit 0: it could measure; what was
 * refused or never answered is in the numbers.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S       1000000000ull
#define REPLY_BYTES    8192
#define EVENTS_MAX     256
#define GIVE_UP_S      10 /* after the last order was due */
#define CONNECTION_MAX 10000

struct connection {
    int fd;
    uint64_t order; /* the order it has sent and waits for */
    size_t used;
    char reply[REPLY_BYTES];
};

struct load {
    uint16_t port;
    uint64_t rate;
    uint64_t orders_n;
    size_t connections_n;
    struct connection *connections;
    struct connection **idle; /* a ring */
    size_t idle_first, idle_n;
    int epoll;
    uint64_t start_ns;
    uint64_t sent;
    uint64_t answered;
    uint64_t accepted;
    double seconds; /* how long it took, and how much CPU */
    double cpu_s;
    uint64_t *latency_ns;    /* of each order, by number */
    uint64_t *send_delay_ns; /* from being due to being sent */
};

static void die(const char *what)
{
    fprintf(stderr, "open_load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t due_ns(const struct load *load, uint64_t order)
{
    return load->start_ns + order * NS_PER_S / load->rate;
}

/* ---- connections --------------------------------------------------------- */

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port)};
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

/*
 * Idle connections are used in turn: the server ends those that are idle for too
 * long, and each is served by one of its threads.
 */
static void put_idle(struct load *load, struct connection *c)
{
    load->idle[(load->idle_first + load->idle_n++) % load->connections_n] = c;
}

static struct connection *take_idle(struct load *load)
{
    struct connection *c = load->idle[load->idle_first];

    load->idle_first = (load->idle_first + 1) % load->connections_n;
    load->idle_n--;
    return c;
}

static void connect_all(struct load *load)
{
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (load->epoll < 0)
        die("epoll");
    for (size_t i = 0; i < load->connections_n; i++) {
        struct connection *c = &load->connections[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
        c->fd = connect_to(load->port);
        if (epoll_ctl(load->epoll, EPOLL_CTL_ADD, c->fd, &event) != 0)
            die("epoll");
        put_idle(load, c);
    }
}

/* ---- an order's way ------------------------------------------------------ */

/* An order is far smaller than an empty socket buffer: it goes at once. */
static void send_order(struct load *load, struct connection *c, uint64_t order)
{
    char body[80], request[300];
    int body_n = snprintf(
        body, sizeof(body),
        "{\"product_id\":1,\"user_id\":%" PRIu64 ",\"quantity\":1}", order + 1);
    int n = snprintf(request, sizeof(request),
                     "POST /api/orders HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n"
                     "Content-Type: application/json\r\n"
                     "Content-Length: %d\r\n\r\n%s",
                     (unsigned)load->port, body_n, body);

    load->send_delay_ns[order] = now_ns() - due_ns(load, order);
    c->order = order;
    c->used = 0;
    if (send(c->fd, request, (size_t)n, MSG_NOSIGNAL) != n)
        die("send");
}

static void send_due(struct load *load)
{
    while (load->sent < load->orders_n && load->idle_n > 0 &&
           due_ns(load, load->sent) <= now_ns())
        send_order(load, take_idle(load), load->sent++);
}

/* Head and body are there; one order at a time is under way on a connection. */
static bool is_whole(const struct connection *c)
{
    const char *body = memmem(c->reply, c->used, "\r\n\r\n", 4);
    const char *length = strcasestr(c->reply, "\r\nContent-Length:");

    return body && length && length < body &&
           c->used >=
               (size_t)(body + 4 - c->reply) + strtoul(length + 17, NULL, 10);
}

static void receive(struct load *load, struct connection *c)
{
    ssize_t n =
        recv(c->fd, c->reply + c->used, sizeof(c->reply) - 1 - c->used, 0);

    if (n <= 0)
        die("the server ended a connection");
    c->used += (size_t)n;
    c->reply[c->used] = '\0';
    if (!is_whole(c))
        return;
    load->latency_ns[c->order] = now_ns() - due_ns(load, c->order);
    load->answered++;
    load->accepted += strncmp(c->reply, "HTTP/1.1 201", 12) == 0;
    put_idle(load, c);
}

/* Until something is to be read or the next order can be sent. */
static int wait_for_events(const struct load *load, struct epoll_event events[])
{
    uint64_t until =
        due_ns(load, load->orders_n) + (uint64_t)GIVE_UP_S * NS_PER_S;
    uint64_t now = now_ns(), left;
    struct timespec timeout;
    int n;

    if (load->sent < load->orders_n && load->idle_n > 0)
        until = due_ns(load, load->sent);
    left = until > now ? until - now : 0;
    timeout.tv_sec = (time_t)(left / NS_PER_S);
    timeout.tv_nsec = (long)(left % NS_PER_S);
    n = epoll_pwait2(load->epoll, events, EVENTS_MAX, &timeout, NULL);
    if (n < 0 && errno != EINTR)
        die("epoll");
    return n;
}

static void run(struct load *load)
{
    struct epoll_event events[EVENTS_MAX];
    uint64_t end;

    load->start_ns = now_ns();
    end = due_ns(load, load->orders_n) + (uint64_t)GIVE_UP_S * NS_PER_S;
    fprintf(stderr, "started\n");
    while (load->answered < load->orders_n && now_ns() < end) {
        int n;

        send_due(load);
        n = wait_for_events(load, events);
        for (int i = 0; i < n; i++)
            receive(load, events[i].data.ptr);
    }
    load->seconds = (double)(now_ns() - load->start_ns) / 1e9;
    load->cpu_s = (double)clock() / CLOCKS_PER_SEC;
}

/* ---- the result ---------------------------------------------------------- */

/* What was not answered has waited until now, at least. */
static void count_unanswered(struct load *load)
{
    uint64_t now = now_ns();

    for (uint64_t i = 0; i < load->orders_n; i++)
        if (load->latency_ns[i] == 0)
            load->latency_ns[i] = now - due_ns(load, i);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static double percentile_ms(const uint64_t sorted[], uint64_t n, double percent)
{
    uint64_t rank = (uint64_t)((double)n * percent / 100.0);

    return (double)sorted[rank < n ? rank : n - 1] / 1e6;
}

static void report(struct load *load)
{
    static const struct {
        const char *name;
        double percent;
    } points[] = {{"p50_ms", 50},
                  {"p90_ms", 90},
                  {"p99_ms", 99},
                  {"p999_ms", 99.9},
                  {"max_ms", 100}};
    uint64_t n = load->orders_n;

    qsort(load->latency_ns, n, sizeof(uint64_t), by_value);
    qsort(load->send_delay_ns, load->sent, sizeof(uint64_t), by_value);
    printf("{\"rate\":%" PRIu64 ",\"requests\":%" PRIu64 ",\"refused\":%" PRIu64
           ",\"broken\":%" PRIu64 ",\"seconds\":%.6f,\"cpu_s\":%.3f",
           load->rate, load->answered, load->answered - load->accepted,
           n - load->answered, load->seconds, load->cpu_s);
    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++)
        printf(",\"%s\":%.3f", points[i].name,
               percentile_ms(load->latency_ns, n, points[i].percent));
    printf(",\"send_delay_p50_ms\":%.3f,\"send_delay_p99_ms\":%.3f}\n",
           percentile_ms(load->send_delay_ns, load->sent, 50),
           percentile_ms(load->send_delay_ns, load->sent, 99));
}

static uint64_t number(const char *text, uint64_t max)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);

    if (*end || value < 1 || value > max) {
        fprintf(stderr, "open_load: a number from 1 to %" PRIu64 ", not '%s'\n",
                max, text);
        exit(2);
    }
    return value;
}

int main(int argc, char *argv[])
{
    struct load load = {0};

    if (argc != 5) {
        fprintf(stderr, "usage: open_load PORT RATE SECONDS CONNECTIONS\n");
        return 2;
    }
    load.port = (uint16_t)number(argv[1], UINT16_MAX);
    load.rate = number(argv[2], 1000000);
    load.orders_n = load.rate * number(argv[3], 3600);
    load.connections_n = number(argv[4], CONNECTION_MAX);
    load.connections = calloc(load.connections_n, sizeof(*load.connections));
    load.idle = calloc(load.connections_n, sizeof(struct connection *));
    load.latency_ns = calloc(load.orders_n, sizeof(uint64_t));
    load.send_delay_ns = calloc(load.orders_n, sizeof(uint64_t));
    if (!load.connections || !load.idle || !load.latency_ns ||
        !load.send_delay_ns)
        die("memory");
    prctl(PR_SET_TIMERSLACK, 1ul); /* wake up when due, not 50 us later */
    connect_all(&load);
    run(&load);
    count_unanswered(&load);
    report(&load);
    free(load.connections);
    free(load.idle);
    free(load.latency_ns);
    free(load.send_delay_ns);
    return 0;
}
