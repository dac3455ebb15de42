/*
 * The hash of each script was made when the library was built. The server has to
 * call it by the same. Where it takes none, their text is sent.
 */
#include <stdio.h>
#include <string.h>

#include "lock/core/clock.h"
#include "lock/deadlock/scripts.h"
#include "lock/quorum/scripts.h"
#include "lock/redis/call.h"
#include "lock/redis/scripts.h"
#include "tests/support/lock_rig.h"

static const struct {
    const char *name;
    const struct dlock_script *script;
} scripts[] = {
#include "lock/scripts.inc"
};

enum { SCRIPTS_N = COUNT_OF(scripts) };

static struct dlock_wire *open_wire(struct dlock_wire_config *config)
{
    *config = (struct dlock_wire_config){.connect_timeout_ms = 1000,
                                         .command_timeout_ms = 1000,
                                         .clock = dlock_clock_default()};
    assert_ok(
        dlock_address_parse(redis_server_url(rig.server), &config->address));
    return dlock_wire_open(config, "me");
}

static void test_the_server_says_the_same(NO_STATE)
{
    struct dlock_wire_config config;
    struct dlock_wire *wire = open_wire(&config);

    assert_in_range(SCRIPTS_N, 20, 40);
    for (size_t i = 0; i < SCRIPTS_N; i++) {
        const struct dlock_script *script = scripts[i].script;
        struct dlock_command command;
        struct dlock_reply reply;
        char text[8192] = "";

        for (size_t k = 0; k < DLOCK_SCRIPT_PARTS_MAX && script->parts[k]; k++)
            (void)snprintf(text + strlen(text), sizeof(text) - strlen(text),
                           "%s", script->parts[k]);
        print_message("# %s\n", scripts[i].name);
        dlock_command_init(&command, "script-load", "n", NULL);
        dlock_command_arg(&command, "SCRIPT");
        dlock_command_arg(&command, "LOAD");
        dlock_command_arg(&command, text);
        assert_ok(dlock_call(wire, &command, UINT64_MAX, &reply));
        assert_string_equal(reply.string, script->sha);
    }
    dlock_wire_close(wire);
}

static const struct CMUnitTest tests[] = {
    LOCK_TEST(test_the_server_says_the_same),
};
LOCK_RIG_MAIN(tests)
