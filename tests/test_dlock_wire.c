/*
 * The wire: what must not be taken for an answer, that each reply has one
 * deadline, and that a batch keeps its order. The sockets under it are in
 * test_dlock_net.c.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "lock/core/clock.h"
#include "lock/redis/node.h"
#include "tests/support/deaf_server.h"
#include "tests/support/lock_rig.h"

/* Of no script: the server has to be given the text. */
static const char unknown_sha[] = "0000000000000000000000000000000000000000";

static struct dlock_wire_config config_for(void)
{
    struct dlock_wire_config config = {.connect_timeout_ms = 200,
                                       .command_timeout_ms = 200,
                                       .clock = dlock_clock_default(),
                                       .on_step = step_log_hook,
                                       .on_step_ctx = &rig.log};

    assert_ok(
        dlock_address_parse(redis_server_url(rig.server), &config.address));
    return config;
}

static void assert_bytes(const struct dlock_encoded *found,
                         const char *expected)
{
    assert_int_equal(found->len, strlen(expected));
    assert_memory_equal(found->bytes, expected, found->len);
}

/* A server of our own, and its answer to one command. */
struct speaker {
    int listener;
    const char *says;
    bool trickles; /* and then a byte every few milliseconds, without end */
};

static void *speak(void *arg)
{
    const struct speaker *speaker = arg;
    int fd = accept(speaker->listener, NULL, NULL);
    char heard[4096];

    if (fd < 0 || read(fd, heard, sizeof(heard)) <= 0 ||
        send(fd, speaker->says, strlen(speaker->says), MSG_NOSIGNAL) < 0)
        return NULL;
    while (speaker->trickles && send(fd, "x", 1, MSG_NOSIGNAL) == 1)
        lock_rig_sleep_ms(5);
    (void)close(fd);
    return NULL;
}

/* For CONFIG to lead to. */
static int listen_as(struct dlock_wire_config *config)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)snprintf(config->address.host, sizeof(config->address.host),
                   "%.80s/server", rig.dir.path);
    (void)snprintf(to.sun_path, sizeof(to.sun_path), "%.100s",
                   config->address.host);
    (void)unlink(to.sun_path);
    assert_int_equal(bind(listener, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_int_equal(listen(listener, 1), 0);
    return listener;
}

/* Milliseconds until a speaker's reply was found to be no answer. */
static uint64_t ask_speaker_ms(struct speaker speaker,
                               const struct dlock_script *script)
{
    struct dlock_wire_config config = config_for();
    struct dlock_wire *wire = dlock_wire_open(&config, "me");
    struct dlock_command command;
    struct dlock_reply reply;
    uint64_t start_ms;
    pthread_t server;

    speaker.listener = listen_as(&config);
    assert_int_equal(pthread_create(&server, NULL, speak, &speaker), 0);
    dlock_command_init(&command, "get", "n", script);
    if (script == NULL)
        dlock_command_arg(&command, "GET");
    dlock_command_arg(&command, "n");
    start_ms = lock_rig_now_ms();
    assert_int_equal(dlock_call(wire, &command, UINT64_MAX, &reply),
                     DLOCK_UNKNOWN);
    start_ms = lock_rig_now_ms() - start_ms;
    dlock_wire_close(wire);
    assert_int_equal(pthread_join(server, NULL), 0);
    (void)close(speaker.listener);
    return start_ms;
}

/* Each byte is an answer to a recv(); the reply has one deadline. */
LOCK_TEST(test_trickle_moves_no_deadline)
{
    assert_in_range(
        ask_speaker_ms((struct speaker){.says = "$4000\r\n", .trickles = true},
                       NULL),
        199, 15000);
}

LOCK_TEST(test_nonsense)
{
    static const char *const lines[] = {
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "$99999999999\r\n",
        ":12",
        "*2\r\n:1\r\n",
        "*-5\r\n",
    };

    for (size_t i = 0; i < COUNT_OF(lines); i++)
        (void)ask_speaker_ms((struct speaker){.says = lines[i]}, NULL);
}

/* An answer that is none of a script's is neither a yes nor a no. */
LOCK_TEST(test_no_reply_of_a_script)
{
    static const struct dlock_script script = {unknown_sha, {"return 7"}};
    static const char *const lines[] = {"+OK\r\n", "$-1\r\n", "$1\r\n1\r\n"};
    const struct dlock_reply one = {
        .kind = DLOCK_REPLY_INTEGER, .integers_n = 1, .integers = {1}};
    struct dlock_grant grant;
    uint64_t busy_ms;

    for (size_t i = 0; i < COUNT_OF(lines); i++)
        (void)ask_speaker_ms((struct speaker){.says = lines[i]}, &script);
    assert_int_equal(dlock_node_read_acquire(&one, &grant, &busy_ms),
                     DLOCK_UNKNOWN);
}

/* Nor where it never has to be waited for: more and more of it is there. */
LOCK_TEST(test_flood_moves_no_deadline)
{
    enum { TEXT_BYTES = 60000 };
    struct dlock_wire_config config = config_for();
    int listener = listen_as(&config);
    struct dlock_wire *wire = dlock_wire_open(&config, "me");
    char *text = calloc(1, TEXT_BYTES + 20);
    uint64_t now = dlock_clock_real_now();
    struct dlock_reply reply;
    int fd;

    assert_non_null(text);
    (void)snprintf(text, 20, "$%d\r\n", TEXT_BYTES);
    memset(text + strlen(text), 'x', TEXT_BYTES);
    memcpy(text + strlen(text), "\r\n", 3);
    assert_ok(dlock_wire_ready(wire, now + LOCK_RIG_PROMPT_MS));
    fd = accept(listener, NULL, NULL);
    assert_int_equal(send(fd, text, strlen(text), 0), strlen(text));
    assert_int_equal(dlock_wire_read(wire, now, &reply), DLOCK_UNKNOWN);
    assert_int_equal(wire->link.fd, -1);
    free(text);
    dlock_wire_close(wire);
    (void)close(fd);
    (void)close(listener);
}

/* What is sent must be what hiredis would have made of it. */
LOCK_TEST(test_encoding)
{
    static const struct dlock_script script = {"abc", {"return", " ", "1"}};
    struct dlock_encoded out = {.bytes = NULL};
    struct dlock_command command;
    char long_name[DLOCK_NAME_BYTES_MAX + 1];

    memset(long_name, 'n', sizeof(long_name) - 1);
    long_name[sizeof(long_name) - 1] = '\0';
    dlock_command_init(&command, "step", "n", &script);
    dlock_command_key(&command, "n");
    dlock_command_arg(&command, "");
    dlock_command_number(&command, 0);
    dlock_command_number(&command, 109);
    dlock_command_number(&command, UINT64_MAX);
    assert_true(dlock_encode(&command, DLOCK_BY_TEXT, &out));
    assert_bytes(&out, "*8\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n"
                       "$1\r\nn\r\n$0\r\n\r\n$1\r\n0\r\n$3\r\n109\r\n"
                       "$20\r\n18446744073709551615\r\n");
    dlock_command_init(&command, "step", "n", NULL);
    dlock_command_arg(&command, long_name);
    assert_true(dlock_encode(&command, DLOCK_BY_SHA, &out));
    assert_int_equal(out.len, 4 + 6 + DLOCK_NAME_BYTES_MAX + 2);
    dlock_command_init(&command, "step", "n", &script);
    assert_true(dlock_encode(&command, DLOCK_BY_SHA, &out));
    assert_bytes(&out, "*3\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n$1\r\n0\r\n");
    free(out.bytes);
}

/* What does not fit is cut off, in a reply's text as in its string. */
LOCK_TEST(test_reply_taken_apart)
{
    static const struct dlock_script script = {
        unknown_sha,
        {"return {-2, 'a', 0, 'b', false, 10, ", "string.rep('x', 400)}"}};
    struct dlock_wire_config config = config_for();
    struct dlock_wire *wire = dlock_wire_open(&config, "me");
    struct dlock_command command;
    struct dlock_reply reply;

    dlock_command_init(&command, "eval", "n", &script);
    assert_ok(dlock_call(wire, &command, UINT64_MAX, &reply));
    assert_int_equal(reply.integers_n, 3);
    assert_int_equal(reply.integers[0], -2);
    assert_int_equal(reply.integers[2], 10);
    assert_string_equal(reply.string, "a");
    assert_memory_equal(reply.text, "-2 a 0 b (nil) 10 xxx", 21);
    assert_int_equal(strlen(reply.text), sizeof(reply.text) - 1);
    dlock_command_init(&command, "integer", "n", NULL);
    dlock_command_arg(&command, "SET");
    dlock_command_arg(&command, "n");
    dlock_command_arg(&command, "-9223372036854775807");
    assert_ok(dlock_call(wire, &command, UINT64_MAX, &reply));
    dlock_command_init(&command, "integer", "n", NULL);
    dlock_command_arg(&command, "DECR");
    dlock_command_arg(&command, "n");
    assert_ok(dlock_call(wire, &command, UINT64_MAX, &reply));
    assert_string_equal(reply.text, "-9223372036854775808");
    dlock_wire_close(wire);
}

/* A reply that comes too late must find nobody listening. */
LOCK_TEST(test_dropped_after_a_timeout)
{
    struct dlock_wire_config config = config_for();
    struct dlock_wire *wire = dlock_wire_open(&config, "me");
    struct dlock_command command;
    struct dlock_reply reply;

    dlock_command_init(&command, "incr", "n", NULL);
    dlock_command_arg(&command, "INCR");
    dlock_command_arg(&command, "n");
    assert_int_equal(wire->link.fd, -1);
    assert_ok(dlock_call(wire, &command, UINT64_MAX, &reply));
    assert_int_equal(reply.integers[0], 1);
    assert_true(wire->link.fd >= 0);
    redis_server_pause(rig.server);
    assert_int_equal(dlock_call(wire, &command, UINT64_MAX, &reply),
                     DLOCK_UNKNOWN);
    assert_int_equal(wire->link.fd, -1);
    redis_server_resume(rig.server);
    assert_ok(dlock_call(wire, &command, UINT64_MAX, &reply));
    assert_int_equal(reply.integers[0], 3);
    /* The second connection waits for replies as the first did. */
    assert_int_equal(fcntl(wire->link.fd, F_GETFL) & O_NONBLOCK, 0);
    dlock_wire_close(wire);
}

static const struct dlock_script echo = {
    "ccf9eb5e959d5d1685245616c2d23bd2389dfd7b", {"return tonumber(ARGV[1])"}};

/* Each exchange gets its own reply, also if the server forgot the script. */
LOCK_TEST(test_batch_keeps_its_order)
{
    struct dlock_wire_config config = config_for();
    struct dlock_wire *wire = dlock_wire_open(&config, "me");
    struct dlock_command commands[5];
    struct dlock_exchange exchanges[5];

    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 5; i++) {
            exchanges[i].command = &commands[i];
            dlock_command_init(&commands[i], "echo", "n", &echo);
            dlock_command_key(&commands[i], "n");
            dlock_command_number(&commands[i], 100 + i);
        }
        dlock_call_batch(wire, exchanges, 5, UINT64_MAX);
        for (unsigned i = 0; i < 5; i++) {
            assert_ok(exchanges[i].status);
            assert_int_equal(exchanges[i].reply.integers[0], 100 + i);
        }
        lock_rig_tell("SCRIPT FLUSH");
    }
    dlock_wire_close(wire);
}

/* One that the hook keeps back, and one that the server refuses. */
LOCK_TEST(test_batch_with_failures)
{
    struct dlock_wire_config config = config_for();
    struct dlock_wire *wire = dlock_wire_open(&config, "me");
    struct dlock_command commands[3];
    struct dlock_exchange exchanges[3];
    static const char *const verbs[] = {"NONSENSE", "GET", "PING"};

    for (int i = 0; i < 3; i++) {
        exchanges[i].command = &commands[i];
        dlock_command_init(&commands[i], verbs[i], "n", NULL);
        dlock_command_arg(&commands[i], verbs[i]);
    }
    dlock_command_arg(&commands[1], "n");
    step_log_fail(&rig.log, "GET", DLOCK_BEFORE, 1);
    dlock_call_batch(wire, exchanges, 3, UINT64_MAX);
    assert_int_equal(exchanges[0].status, DLOCK_UNREACHABLE);
    assert_int_equal(exchanges[1].status, DLOCK_UNREACHABLE);
    assert_ok(exchanges[2].status);
    assert_string_equal(exchanges[2].reply.text, "PONG");
    /* Each step that was let go came back to the hook. */
    assert_int_equal(step_log_ended(&rig.log, "NONSENSE"), 1);
    assert_int_equal(step_log_ended(&rig.log, "GET"), 0);
    dlock_wire_close(wire);
}

/* The server hangs, and knows nothing of the script: one limit for all. */
LOCK_TEST(test_batch_has_one_limit)
{
    static const struct dlock_script seven = {unknown_sha, {"return 7"}};
    struct dlock_wire_config config = config_for();
    struct dlock_wire *wire = dlock_wire_open(&config, "me");
    struct dlock_command command;
    struct dlock_exchange exchanges[3];
    uint64_t start_ms = lock_rig_now_ms();

    config.command_timeout_ms = 1500;
    dlock_command_init(&command, "seven", "n", &seven);
    for (unsigned i = 0; i < 3; i++)
        exchanges[i].command = &command;
    assert_ok(dlock_wire_ready(wire, start_ms + LOCK_RIG_PROMPT_MS));
    redis_server_pause(rig.server);
    start_ms = lock_rig_now_ms();
    dlock_call_batch(wire, exchanges, 3, start_ms + 1500);
    redis_server_resume(rig.server);
    assert_in_range(lock_rig_now_ms() - start_ms, 1490, 4350);
    assert_int_equal(step_log_ended(&rig.log, "seven"), 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(exchanges[i].status, DLOCK_UNKNOWN);
    dlock_wire_close(wire);
}

/* A withdrawal that nobody waits for has an end all the same. */
LOCK_TEST(test_abandon_has_a_bound)
{
    struct dlock_wire_config config = config_for();
    struct dlock_command command;
    struct dlock_wire *wire;
    struct deaf_server deaf = deaf_server_open();
    uint64_t start_ms;

    config.connect_timeout_ms = LOCK_RIG_LONG_MS;
    config.address = (struct dlock_address){.host = "127.0.0.1"};
    (void)snprintf(config.address.port, sizeof(config.address.port), "%d",
                   ntohs(deaf.at.sin_port));
    wire = dlock_wire_open(&config, "me");
    dlock_command_init(&command, "eval-undo", "k", NULL);
    dlock_command_arg(&command, "PING");
    start_ms = lock_rig_now_ms();
    dlock_call_abandon(wire, &command, 100);
    assert_in_range(lock_rig_now_ms() - start_ms, 95, LOCK_RIG_PROMPT_MS);
    assert_int_equal(step_log_ended(&rig.log, "eval-undo"), 1);
    dlock_wire_close(wire);
    deaf_server_close(&deaf);
}

/* A network that holds up the first command. */
static enum dlock_verdict hold_up(void *ctx, const struct dlock_step *step)
{
    char **command = ctx;

    if (step->phase == DLOCK_AFTER) {
        assert_null(step->words);
        return DLOCK_GO;
    }
    if (*command != NULL)
        return DLOCK_GO;
    *command = step_line(step);
    return DLOCK_HOLD_BACK;
}

/* "Don't know" is right: the bytes may arrive, and here they do. */
LOCK_TEST(test_held_up_is_not_unsent)
{
    static char *command;
    struct lock_single single;

    rig.on_step = hold_up;
    rig.hooks_ctx = &command;
    single = lock_single_open("setnx");
    assert_int_equal(lock_single_take(&single, 0), DLOCK_UNKNOWN);
    assert_false(lock_rig_is_held());
    assert_int_equal(lock_rig_ask("%s", command), 1);
    assert_true(lock_rig_is_held());
    free(command);
}

LOCK_RIG_MAIN
