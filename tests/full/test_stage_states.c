/*
 * The states of the stage: two schedules with the same hash have the same future.
 * The search goes on from only one of them, so it must be so.
 *
 * Schedules by chance, each with a move of it at another place, are compared by a future
 * of both. All short ones, with reduction and without: test_stage_search.c.
 *
 * With STAGE_SECONDS that goes on for so long with each scene, and STAGE_LOCK says
 * which lock: tests/full/stage.t asks for it.
 */
#include <inttypes.h>

#include "lock/dlock.h"
#include "server/base/clock.h"
#include "server/lab/base/expected.h"
#include "server/lab/stage/stage.h"
#include "tests/support/stage_scene.h"

enum {
    WALKS = 12,          /* of each scene */
    TROUBLES_MAX = 2,    /* in one schedule */
    WALK_MOVES_MAX = 18, /* of a long schedule */
    FUTURE_MOVES = 4,    /* behind it */
};

/* All that can be known of a state from outside. */
struct seen {
    uint64_t hash;
    unsigned faults;
    size_t moves_n;
    struct stage_move moves[STAGE_ENABLED_MAX];
};

struct schedule {
    size_t n;
    struct stage_move moves[STAGE_MOVES_MAX];
};

static struct stage *stage;
static struct fail error;

static bool is_same_move(struct stage_move a, struct stage_move b)
{
    return a.actor == b.actor && a.kind == b.kind;
}

static bool is_same(const struct seen *a, const struct seen *b)
{
    bool same = a->hash == b->hash && a->faults == b->faults &&
                a->moves_n == b->moves_n;

    for (size_t i = 0; i < a->moves_n && same; i++)
        same = is_same_move(a->moves[i], b->moves[i]);
    return same;
}

static bool is_trouble(struct stage_move move)
{
    return !strchr("sei", move.kind) && (move.kind != '^' || move.actor >= 0);
}

/* The servers' own fates are not searched for. */
static bool is_searched(struct stage_move move)
{
    return move.actor >= -1 && move.kind != 'R' && move.kind != 'P';
}

static void begin(void)
{
    if (!stage_begin(stage, &error))
        fail_msg("%s", error.text);
}

static bool play_moves(const struct schedule *schedule)
{
    for (size_t i = 0; i < schedule->n; i++) {
        if (!stage_move(stage, schedule->moves[i], &error))
            return false;
        (void)stage_faults(stage);
    }
    return true;
}

static void look(struct seen *seen)
{
    struct stage_move moves[STAGE_ENABLED_MAX];
    size_t n = stage_enabled(stage, moves);

    memset(seen, 0, sizeof(*seen));
    for (size_t i = 0; i < n; i++)
        if (is_searched(moves[i]))
            seen->moves[seen->moves_n++] = moves[i];
    seen->faults = stage_faults(stage);
    seen->hash = stage_hash(stage);
}

static void fail_pair(const struct stage_scene *scene, const struct schedule *a,
                      const struct schedule *b, const char *how)
{
    char one[4 * STAGE_MOVES_MAX + 1], other[4 * STAGE_MOVES_MAX + 1];

    stage_text(a->moves, a->n, one, sizeof(one));
    stage_text(b->moves, b->n, other, sizeof(other));
    fprintf(stderr,
            "%s, %s, %u buyers%s: '%s' and '%s' have one hash, but %s\n",
            scene->lock, scene->deduct == DEDUCT_NAIVE ? "naive" : "guarded",
            scene->buyers, scene->batched ? ", batched" : "", one, other, how);
    if (!getenv("STAGE_GO_ON"))
        fail_msg("two futures");
}

/* ---- schedules by chance ------------------------------------------------ */

static uint64_t dice;

static size_t throw(size_t n)
{
    dice = dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (size_t)(dice >> 33) % n;
}

/* Steps are most of it: with troubles alone nobody comes far. */
static bool walk(struct schedule *schedule, size_t moves)
{
    unsigned troubles = 0;
    struct seen seen;

    begin();
    for (schedule->n = 0; schedule->n < moves; schedule->n++) {
        struct stage_move move;

        look(&seen);
        if (seen.moves_n == 0)
            return schedule->n > 1;
        for (int tries = 0;; tries++) {
            move = seen.moves[throw(seen.moves_n)];
            if (!is_trouble(move) || tries > 40 ||
                (troubles < TROUBLES_MAX && throw(3) == 0))
                break;
        }
        troubles += is_trouble(move);
        schedule->moves[schedule->n] = move;
        if (!stage_move(stage, move, &error))
            fail_msg("%s", error.text);
    }
    return true;
}

/* Takes one move out, and puts it back elsewhere. */
static void shift(const struct schedule *from, struct schedule *to)
{
    size_t out = throw(from->n), in = throw(from->n);
    struct stage_move move = from->moves[out];

    *to = *from;
    memmove(to->moves + out, to->moves + out + 1,
            (to->n - 1 - out) * sizeof(move));
    memmove(to->moves + in + 1, to->moves + in,
            (to->n - 1 - in) * sizeof(move));
    to->moves[in] = move;
}

/* The same moves behind both of them: chosen behind the one, the other follows. */
static void play_future(const struct stage_scene *scene,
                        const struct schedule *one,
                        const struct schedule *other)
{
    struct schedule a = *one, b = *other;
    struct seen seen[FUTURE_MOVES + 1], again;
    size_t steps = 0;

    begin();
    (void)play_moves(&a);
    look(&seen[0]);
    while (steps < FUTURE_MOVES && seen[steps].moves_n > 0) {
        struct stage_move move = seen[steps].moves[throw(seen[steps].moves_n)];

        a.moves[a.n++] = b.moves[b.n] = move;
        b.n++;
        if (!stage_move(stage, move, &error))
            fail_msg("%s", error.text);
        look(&seen[++steps]);
    }
    begin();
    if (!play_moves(other))
        fail_msg("%s", error.text);
    for (size_t i = 0; i <= steps; i++) {
        look(&again);
        if (!is_same(&again, &seen[i])) {
            a.n = b.n = other->n + i;
            fail_pair(scene, &a, &b, "differ there");
            return;
        }
        if (i < steps && !stage_move(stage, b.moves[other->n + i], &error))
            fail_msg("%s", error.text);
    }
}

static unsigned play_random(const struct stage_scene *scene, unsigned walks,
                            uint64_t until_ms)
{
    struct schedule one, other;
    struct seen seen, again;
    unsigned pairs = 0;

    for (unsigned i = 0; i < walks && clock_ms() < until_ms; i++) {
        if (!walk(&one, 3 + throw(WALK_MOVES_MAX - 3)))
            continue;
        look(&seen);
        for (int j = 0; j < 3; j++) {
            shift(&one, &other);
            begin();
            if (!play_moves(&other))
                continue;
            look(&again);
            if (again.hash != seen.hash ||
                memcmp(one.moves, other.moves, one.n * sizeof(one.moves[0])) ==
                    0)
                continue;
            play_future(scene, &one, &other);
            pairs++;
        }
    }
    return pairs;
}

/* ---- scenes ------------------------------------------------------------- */

static unsigned all_pairs; /* that were compared, of all scenes */

static void play_scene(const struct stage_scene *scene)
{
    const char *seconds = getenv("STAGE_SECONDS");
    uint64_t ms = seconds ? strtoull(seconds, NULL, 10) * 1000 : 3600000;
    const char *only = getenv("STAGE_LOCK");
    unsigned pairs;

    if (only && strcmp(only, scene->batched ? "batched" : scene->lock) != 0)
        return;
    stage = open_scene(scene);
    dice = 4711;
    pairs = play_random(scene, seconds ? UINT32_MAX : WALKS, clock_ms() + ms);
    print_message("%s%s, %u buyers: %u pairs\n", scene->lock,
                  scene->batched                    ? ", batched"
                  : scene->one_process              ? ", one process"
                  : scene->deduct == DEDUCT_GUARDED ? ", guarded"
                                                    : "",
                  scene->buyers, pairs);
    stage_close(stage);
    all_pairs += pairs;
}

UNIT_TEST(test_equal_states_have_equal_futures)
{
    const struct dlock_strategy_info *info;

    for (size_t i = 0; (info = dlock_strategy_info(i)) != NULL; i++) {
        struct stage_scene scene = STAGE_SCENE(info->name);

        if (!expected_of(info->name)->faults)
            continue;
        scene.buyers = 3;
        play_scene(&scene);
        scene.buyers = 2;
        if (getenv("STAGE_SECONDS"))
            play_scene(&scene);
    }
}

/* The ways on which nothing breaks, and programs of other kinds. */
UNIT_TEST(test_other_ways)
{
    static const char *const ways[] = {
        "fenced --batched --buyers 3",
        "fenced --deduct guarded --buyers 3",
        "redisson --deduct guarded --buyers 3",
        "fair --deduct guarded --buyers 3",
        "fenced --deduct guarded --buyers 3 --wait-ms 1000",
        "fenced --deduct guarded --buyers 3 --segments 2 --stock 2",
        "redisson --deduct guarded --buyers 3 --one-process",
        "none --deduct guarded --programs order-whole,order-busy-is-no",
        "none --deduct guarded --pay-within 1 --programs "
        "order-pay:key=k,pay:key=k",
        "redisson --deduct guarded --pay-within 1 --programs "
        "order-pay:key=k,order-cancel",
        "fenced --batched --pay-within 1 --programs "
        "instance-pay:key=k,instance-cancels:key=k",
    };

    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        struct stage_scene scene = scene_of(ways[i]);

        play_scene(&scene);
    }
    assert_true(all_pairs > 300 || getenv("STAGE_SECONDS") ||
                getenv("STAGE_LOCK"));
}

static uint64_t hash_of(const char *text)
{
    struct schedule schedule;

    schedule.n = moves_of(text, schedule.moves);
    begin();
    if (!play_moves(&schedule))
        fail_msg("'%s': %s", text, error.text);
    return stage_hash(stage);
}

/* What has once been taken for one state: by when a lease was counted from, and by
 * the answer to a SUBSCRIBE, which only the subscriber misses. */
UNIT_TEST(test_different_states_differ)
{
    static const char *const pairs[][3] = {
        {"fenced", "b b a a^ L ^", "b b a L a^ ^"},
        {"fenced --batched", "ai bi b b a L", "ai bi b b L a"},
        {"redisson", "a b b", "a b b~"},
    };

    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        struct stage_scene scene = scene_of(pairs[i][0]);

        stage = open_scene(&scene);
        assert_int_not_equal(hash_of(pairs[i][1]), hash_of(pairs[i][2]));
        stage_close(stage);
    }
}
