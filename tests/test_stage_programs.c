/*
 * What actors of the stage do besides one order each: programs, roles, several in
 * one process. The stories are kept as strings: what one version tells, the next
 * one tells as well. Those of the experiments: e2e/lab.t.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/lab/programs/program.h"
#include "tests/support/unit_test.h"

#define BIT(fault) (1u << (fault))

/* What has happened, for who has to find out why. */
static void tell(const struct stage *stage)
{
    const struct stage_step *steps;
    size_t n;

    steps = stage_steps(stage, &n);
    for (size_t i = 0; i < n; i++)
        fprintf(stderr, "%u %c %s %s|%s|%s\n", steps[i].move,
                steps[i].actor < 0 ? '-' : 'a' + steps[i].actor, steps[i].who,
                steps[i].name, steps[i].sent, steps[i].reply);
}

/* Plays SCHEDULE and returns what broke; the view is as it is then. */
static unsigned play(const struct stage_scene *scene, const char *schedule,
                     struct stage_view *view)
{
    struct stage_move moves[STAGE_MOVES_MAX];
    char error[300] = "";
    struct stage *stage = stage_open(scene, error, sizeof(error));
    unsigned faults;
    int n;

    if (!stage)
        fail_msg("%s", error);
    n = stage_parse(schedule, moves, error, sizeof(error));
    for (int i = 0; i < n; i++)
        if (!stage_move(stage, moves[i], error, sizeof(error))) {
            tell(stage);
            print_error("%s '%s': move %d: %s\n", scene->lock, schedule, i + 1,
                        error);
            break;
        }
    if (getenv("STAGE_TELL"))
        tell(stage);
    faults = stage_faults(stage);
    stage_look(stage, view);
    stage_close(stage);
    return faults;
}

#define A(...)       .roles[0] = {__VA_ARGS__}
#define B(...)       .roles[1] = {__VA_ARGS__}
#define P(name, ...) .program = (name), __VA_ARGS__

static const struct story {
    const char *what;
    struct stage_scene scene; /* 0 = two buyers, one unit, a wait of 30 s */
    const char *schedule;
    struct end {
        unsigned faults;
        int stock, orders;
        bool over;
    } end;
} stories[] = {
    {"in one process a mutex is enough",
     {.lock = "process", .deduct = DEDUCT_NAIVE, .one_process = true},
     "a b a a b",
     {0, 0, 1, true}},
    {"a number of this process's is enough in it",
     {.lock = "token-thread", .deduct = DEDUCT_NAIVE, .one_process = true},
     "a a a a L b a",
     {0, 0, 1, false}},
    {"who dies takes those of its process along",
     {.lock = "set-nx-px", .one_process = true},
     "a a!",
     {0, 1, 0, true}},
    {"a lock that counts in the session is not lengthened",
     {.lock = "reentrant-local", .deduct = DEDUCT_NAIVE, A(P("order-nested"))},
     "a a L b b a a b b",
     {BIT(STAGE_OVERSOLD), 0, 2, false}},
    {"two orders of one actor",
     {.lock = "none",
      .buyers = 1,
      .stock = 5,
      A(P("order-twice", .quantity = 2))},
     "a a",
     {0, 1, 2, true}},
    {"a user's limit",
     {.lock = "none",
      .stock = 5,
      .limit = 1,
      .deduct = DEDUCT_NAIVE,
      A(.user = 7),
      B(.user = 7)},
     "a b a b a b",
     {BIT(STAGE_LIMIT) | BIT(STAGE_TWO_INSIDE) | BIT(STAGE_LEDGER), 4, 2,
      true}},
    {"a cancel returns the units",
     {.lock = "none", A(.key = "k"), B(P("cancel", .key = "k"))},
     "a b",
     {0, 1, 0, true}},
    {"its own order",
     {.lock = "none", .buyers = 1, A(P("order-cancel"))},
     "a a",
     {0, 1, 0, true}},
    {"more units, once for a key",
     {.lock = "none",
      A(P("restock", .key = "k", .quantity = 3)),
      B(P("restock", .key = "k", .quantity = 3))},
     "a b",
     {0, 4, 0, true}},
    {"other segments, and they are dealt out evenly",
     {.lock = "none",
      .stock = 8,
      A(P("resize", .segments = 4)),
      B(P("even-out"))},
     "a b",
     {0, 8, 0, true}},
    {"one that does not knows the holder",
     {.lock = "redisson", .deduct = DEDUCT_NAIVE, .replica = true},
     "a a P b a a",
     {0, 0, 1, false}},
    {"a key's order is one, whoever sends it",
     {.lock = "none",
      .stock = 5,
      .deduct = DEDUCT_GUARDED,
      A(.user = 1, .key = "k"),
      B(P("order-twice", .user = 1, .key = "k"))},
     "a b b",
     {0, 4, 1, true}},
    {"two cancels of it return the units once",
     {.lock = "none",
      .deduct = DEDUCT_GUARDED,
      A(P("order-cancel", .key = "k")),
      B(P("cancel", .key = "k"))},
     "a b a",
     {0, 1, 0, true}},
    {"more units under one key, four times",
     {.lock = "none", A(P("restock-twice")), B(P("restock-twice"))},
     "a b a b",
     {0, 2, 0, true}},
    {"a lease made shorter",
     {.lock = "redisson", A(P("lock-extends")), B(P("lock"))},
     "a a L b b a a",
     {0, 1, 0, true}},
    {"batched: the same order at two instances",
     {.lock = "fenced",
      .stock = 3,
      .batched = true,
      A(P("instance-same", .user = 1, .key = "k")),
      B(P("instance-same", .user = 1, .key = "k"))},
     "ai ai a a a a a a a ai a bi bi b b b b b b b bi b",
     {0, 2, 1, true}},
    {"an instance whose lease has ended writes nothing",
     {.lock = "fenced", .stock = 3, .batched = true},
     "ai ai a a bi bi b b L b b b a a b b b b b",
     {0, 1, 2, false}},
    {"an order is paid, and a cancel comes too late",
     {.lock = "none",
      .pay_within_s = 1,
      A(P("order-pay", .key = "k")),
      B(P("cancel", .key = "k"))},
     "a a b",
     {0, 0, 1, true}},
    {"it is cancelled, and the payment comes too late",
     {.lock = "none",
      .pay_within_s = 1,
      A(P("order-pay", .key = "k")),
      B(P("cancel", .key = "k"))},
     "a b a",
     {0, 1, 0, true}},
    {"it is overdue, and its payment comes before the expiry: too late",
     {.lock = "none", .pay_within_s = 1, .buyers = 1, A(P("order-pay"))},
     "a H a",
     {0, 1, 0, true}},
    {"it has expired, another buyer has the unit, and the payment comes",
     {.lock = "none",
      .pay_within_s = 1,
      A(P("order-pay", .key = "k")),
      B(P("order-pay"))},
     "a H ae b a b",
     {0, 0, 1, true}},
    {"its instance has died, and another one gives the unit back, once",
     {.lock = "none",
      .buyers = 3,
      .pay_within_s = 1,
      A(P("order", .key = "k")),
      B(P("pay", .key = "k")),
      .roles[2] = {P("pay", .key = "k")}},
     "a b c H be ce b c",
     {0, 1, 0, true}},
    {"the answer to a payment is lost, and it is sent once more",
     {.lock = "none", .pay_within_s = 1, .buyers = 1, A(P("order-pay"))},
     "a a~ a",
     {0, 0, 1, true}},
    {"a lock per user keeps a user's limit",
     {.lock = "redisson",
      .limit = 1,
      .lock_per = LOCK_PER_USER,
      .deduct = DEDUCT_NAIVE,
      .stock = 2,
      A(.user = 1),
      B(.user = 1)},
     "a b b b a a a a b b b",
     {0, 1, 1, true}},
    {"and not the stock",
     {.lock = "redisson", .lock_per = LOCK_PER_USER, .deduct = DEDUCT_NAIVE},
     "a b a b a b a b a b",
     {BIT(STAGE_OVERSOLD), 0, 2, true}},
    {"a waiter whose time is over is not asleep: it looks, and wakes the next",
     {.lock = "fair", .buyers = 3},
     "c b b b b b+ b L a a c! a a",
     {0, 1, 0, false}},
    {"a question that came late has its place in the queue",
     {.lock = "fair", .buyers = 3},
     "c a^ ^ c~ c b~ a^ ^",
     {0, 0, 1, false}},
    {"a late vote of a minority locks nothing",
     {.lock = "redlock"},
     "a a a^ a a a a^ ^",
     {0, 0, 1, false}},
    {"whoever was not heard of for a heartbeat queues up anew",
     {.lock = "fair", .buyers = 3},
     "b b a a a c c c c c+ c c+ c c+ b a c",
     {0, 0, 1, false}},
    {"or keeps its place, because the server heard of nobody",
     {.lock = "fair", .buyers = 3},
     "b a bw b- c~ a a a a+ b a",
     {0, 1, 0, false}},
    {"a late question of one that has had the lock is a heartbeat's delay",
     {.lock = "fair", .buyers = 3},
     "b^ a^ a a L ^ ^ b b a b b b",
     {0, 0, 1, false}},
    {"a pause of a moment after a split vote is no sleep",
     {.lock = "multi", .deduct = DEDUCT_NAIVE},
     "a a a a~ b a b b b b a b",
     {0, 0, 0, false}},
    {"a waiter of several servers looks by itself, because an undo wakes "
     "nobody",
     {.lock = "multi", .wait_ms = 1000},
     "a~ L a b b b b a",
     {0, 1, 0, false}},
    {"what is late after a loss of all data is the loss's",
     {.lock = "fenced"},
     "a a^ a a a F ^",
     {0, 0, 1, false}},
    {"and so are holds that it leaves",
     {.lock = "fenced"},
     "a a a a b b^ b b b F ^",
     {0, 0, 1, true}},
    {"a late question that a release has made void gives no place",
     {.lock = "fair", .buyers = 3},
     "b a^ L a a ^ c",
     {0, 1, 0, false}},
    {"a server that has begun anew lets a late acquire in",
     {.lock = "redlock", .deduct = DEDUCT_GUARDED},
     "b^ b b b b b b 1! a a a a a a a ^",
     {0, 0, 1, true}},
    {"with less time than a last command needs, nobody waits",
     {.lock = "redisson", .deduct = DEDUCT_GUARDED, .wait_ms = 100},
     "a a b a",
     {0, 0, 1, true}},
    {"one that dies in the queue is spared once, if nobody asked",
     {.lock = "fair", .deduct = DEDUCT_GUARDED, .buyers = 3, .stock = 3},
     "a c c+ c! b L b b b",
     {0, 3, 0, false}},
    {"who has overslept was woken in vain",
     {.lock = "fenced",
      .deduct = DEDUCT_GUARDED,
      .buyers = 3,
      .stock = 3,
      .wait_ms = 1000},
     "a a c c c c c c+ c ax b b b b b b+ b a c",
     {0, 3, 0, false}},
    {"and stands in the queue for a while",
     {.lock = "fair",
      .deduct = DEDUCT_GUARDED,
      .buyers = 3,
      .stock = 3,
      .wait_ms = 1000},
     "c a cw a+ b b b c c b",
     {0, 2, 1, false}},
    {"who has left the queue is not overtaken",
     {.lock = "fair",
      .deduct = DEDUCT_GUARDED,
      .buyers = 3,
      .stock = 3,
      .wait_ms = 1000},
     "c c~ a a a a a+ a^ a a+ a a c b",
     {0, 2, 1, false}},
    {"who begins to wait again has not been refused a free lock",
     {.lock = "fair",
      .deduct = DEDUCT_GUARDED,
      .stock = 3,
      .wait_ms = 1000,
      A(P("order-twice")),
      B(P("order-twice"))},
     "b a L a a",
     {0, 3, 0, false}},
    {"one of two locks is lost, and the other given back",
     {.lock = "fenced",
      .deduct = DEDUCT_GUARDED,
      .batched = true,
      .buyers = 1,
      .stock = 3,
      .segments = 2},
     "ai a a a a ai a a L a a a a a a a a",
     {0, 1, 2, false}},
    {"a renewal does not make an acquire void",
     {.lock = "fenced",
      .deduct = DEDUCT_GUARDED,
      A(P("order-nested")),
      B(P("order"))},
     "a a a a^ aw b b b+ ^",
     {0, 1, 0, false}},
};

static void test_stories(NO_STATE)
{
    static struct stage_view view;
    unsigned wrong = 0;

    for (size_t i = 0; i < COUNT_OF(stories); i++) {
        const struct story *story = &stories[i];
        struct stage_scene scene = story->scene;
        const struct end *told = &story->end;
        unsigned faults;

        scene.buyers = scene.buyers ? scene.buyers : 2;
        scene.stock = scene.stock ? scene.stock : 1;
        scene.quantity = 1;
        scene.wait_ms = scene.wait_ms ? scene.wait_ms : 30000;
        faults = play(&scene, story->schedule, &view);
        if (faults == told->faults && view.stock == told->stock &&
            view.orders == told->orders && view.over == told->over)
            continue;
        wrong++;
        print_error("%s: faults %x, not %x; stock %" PRId64
                    ", not %d; orders %" PRId64 ", not %d; over: %d\n",
                    story->what, faults, told->faults, view.stock, told->stock,
                    view.orders, told->orders, view.over);
    }
    assert_int_equal(wrong, 0);
}

/* A server that has died, and a replica in its place, are back at the start. */
static void test_promoted_and_back(NO_STATE)
{
    struct stage_scene scene = STAGE_SCENE("redisson");
    struct stage_move moves[STAGE_MOVES_MAX];
    char error[300] = "", first[STAGE_REDIS_BYTES_MAX] = "";
    struct stage *stage;
    static struct stage_view view;
    int n = stage_parse("a R b P b", moves, error, sizeof(error));

    scene.replica = true;
    stage = stage_open(&scene, error, sizeof(error));
    assert_non_null(stage);
    for (int round = 0; round < 2; round++) {
        assert_true(stage_begin(stage, error, sizeof(error)));
        for (int i = 0; i < n; i++)
            if (!stage_move(stage, moves[i], error, sizeof(error)))
                fail_msg("round %d, move %d: %s", round, i + 1, error);
        stage_look(stage, &view);
        if (round == 0)
            memcpy(first, view.redis, sizeof(first));
        assert_string_equal(view.redis, first);
        assert_int_equal(view.locks[0].holder, 0);
    }
    stage_close(stage);
}

static void test_programs_are_known(NO_STATE)
{
    struct stage_scene scene = STAGE_SCENE("none");
    char error[300] = "";

    scene.lock_per = LOCK_PER_USER;
    scene.deduct = DEDUCT_GUARDED;
    scene.batched = true;
    assert_null(stage_open(&scene, error, sizeof(error)));
    assert_non_null(strstr(error, "orders one by one"));
    scene = (struct stage_scene)STAGE_SCENE("fenced");
    scene.lock_per = LOCK_PER_USER;
    assert_null(stage_open(&scene, error, sizeof(error)));
    assert_non_null(strstr(error, "no tokens"));
    scene = (struct stage_scene)STAGE_SCENE("none");
    scene.roles[1].program = "sing";
    assert_null(stage_open(&scene, error, sizeof(error)));
    assert_non_null(strstr(error, "no program 'sing'; there are: order "));
    for (size_t i = 0; program_at(i); i++) {
        assert_ptr_equal(program_find(program_at(i)->name), program_at(i));
        assert_non_null(program_at(i)->does);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_stories),
    cmocka_unit_test(test_promoted_and_back),
    cmocka_unit_test(test_programs_are_known),
};

TEST_MAIN(tests)
