/*
 * Stock hints of several instances: what others wrote is read, as far as this one
 * does not know better. And units that are dealt out anew because a segment was
 * found short: once, however many find it out.
 */
#include "tests/support/hints_rig.h"

/* ---- other instances (--shared) -------------------------------------------- */

/* This one knows of segment 0; what is in the others, Redis says. */
static struct hints_rig *share(void **state, const char *one, const char *two)
{
    struct hints_rig *rig = *state;

    rig->config.shared = true;
    hints_rig_note(rig, 0, 5);
    hints_rig_settle(rig);
    hints_rig_set_key(rig, 1, one);
    hints_rig_set_key(rig, 2, two);
    rig->now_us += 1000000;
    return rig;
}

static void what_others_wrote_is_read(void **state)
{
    struct hints_rig *rig = share(state, "4000", "3");
    int before = hints_rig_asked(rig, "get");

    rig->config.shared = false; /* there are no others */
    hints_rig_settle(rig);
    assert_int_equal(hints_rig_asked(rig, "get"), before);
    rig->config.shared = true;
    hints_rig_settle(rig);
    hints_rig_expect_choice(rig, 6, 1);
    hints_rig_set_key(rig, 1, "0");
    hints_rig_set_key(rig, 2, "5000");
    hints_rig_settle(rig); /* not yet */
    hints_rig_expect_choice(rig, 6, 1);
    rig->now_us += 1000000;
    hints_rig_settle(rig);
    hints_rig_expect_choice(rig, 6, 2);
    redis_server_kill(rig->redis); /* a read that fails changes nothing */
    rig->now_us += 1000000;
    hints_rig_settle(rig);
    hints_rig_expect_choice(rig, 6, 2);
}

/* One product at a time, that first which was read longest ago. */
static void each_product_has_its_turn(void **state)
{
    struct hints_rig *rig = share(state, "4000", "0");
    static const struct {
        uint64_t after_us;
        int asked; /* since product 1 was read, which has three segments */
    } turns[] = {{0, 2}, {1000, 2}, {1000, 4}, {2000, 7}, {2000, 7}};
    int before = hints_rig_asked(rig, "get");

    hints_note(rig->hints, 2, 2, 0, 0);
    hints_note(rig->hints, 3, 2, 0, 0);
    for (size_t i = 0; i < COUNT_OF(turns); i++) {
        rig->now_us += turns[i].after_us;
        hints_rig_settle(rig);
        assert_int_equal(hints_rig_asked(rig, "get") - before, turns[i].asked);
    }
}

/* Neither more than there can be. */
static void what_is_no_number_is_unknown(void **state)
{
    struct hints_rig *rig = share(state, "4000", "5000");
    static const char *const values[][2] = {
        {"4x", "-7"}, {"9007199254740992", "99999999999999999999"}};

    for (int i = 0; i < 2; i++) {
        int counts[3] = {0};

        hints_rig_set_key(rig, 1, values[i][0]);
        hints_rig_set_key(rig, 2, values[i][1]);
        rig->now_us += 1000000;
        hints_rig_settle(rig);
        for (int k = 0; k < 200; k++)
            counts[hints_choose(rig->hints, 1, 6)]++;
        assert_int_equal(counts[0], 0);
        assert_in_range(counts[1], 50, 150);
    }
}

/* The task reads what is older than what was noted meanwhile. */
static void what_was_noted_meanwhile_is_newer(void **state)
{
    struct hints_rig *rig = share(state, "4000", "5000");

    redis_server_pause(rig->redis);
    hints_attend(rig->hints, rig->now_us);
    assert_false(hints_are_idle(rig->hints));
    hints_rig_note(rig, 2, 0);
    redis_server_resume(rig->redis);
    hints_rig_settle(rig);
    hints_rig_expect_choice(rig, 6, 1);
    assert_int_equal(hints_rig_key(rig, 1, 2), 0);
}

/* ---- evening out: all on the committer's thread ---------------------------- */

static void learn(struct hints_rig *rig)
{
    for (int i = 0; i < 3; i++)
        hints_rig_note(rig, i, i == 0 ? 0 : 10);
}

static void find_short(struct hints_rig *rig)
{
    hints_uneven(rig->hints, 1, rig->now_us);
    hints_uneven(rig->hints, 1, rig->now_us);
    hints_uneven(rig->hints, 2, rig->now_us); /* not heard of */
    rig->is_idle = hints_are_idle(rig->hints);
}

/* And again, when the store has taken its time. */
static void find_short_again(struct hints_rig *rig)
{
    find_short(rig);
    hints_uneven(rig->hints, 1, rig->now_us + 1000000);
}

static void look(struct hints_rig *rig)
{
    hints_attend(rig->hints, rig->now_us);
    rig->is_idle = hints_are_idle(rig->hints);
}

static void stop(struct hints_rig *rig)
{
    hints_stop(rig->hints);
}

static void await_idle(struct hints_rig *rig)
{
    do
        hints_rig_call(rig, look);
    while (!rig->is_idle);
}

static struct hints_rig *make_uneven(void **state)
{
    struct hints_rig *rig = *state;

    store_rig_split(&rig->store, 30, 3);
    (void)store_rig_order_at(&rig->store, 0, 10);
    store_rig_expect(&rig->store, "0 10 10");
    hints_rig_call(rig, learn);
    return rig;
}

static void an_uneven_product_is_evened_out_once(void **state)
{
    struct hints_rig *rig = make_uneven(state);

    hints_rig_call(rig, find_short_again);
    assert_false(rig->is_idle);
    await_idle(rig);
    store_rig_expect(&rig->store, "7 7 6");
    rig->now_us += 50000;
    hints_rig_call(rig, find_short);
    await_idle(rig);
    assert_int_equal(atomic_load(&rig->evened_out), 1);
    rig->now_us += 1000000;
    hints_rig_call(rig, find_short); /* again, since time has passed */
    await_idle(rig);
    assert_int_equal(atomic_load(&rig->evened_out), 2);
    rig->now_us += 1000000;
    hints_rig_call(rig, stop);
    hints_rig_call(rig, find_short);
    assert_true(rig->is_idle);
}

/* What a batch said that was decided just before is true no more. */
static void what_was_evened_out_is_unknown(void **state)
{
    struct hints_rig *rig = make_uneven(state);
    int counts[3] = {0};

    await_idle(rig);
    assert_int_equal(hints_rig_key(rig, 1, 2), 10);
    atomic_store(&rig->note_in_even, true);
    hints_rig_call(rig, find_short);
    await_idle(rig);
    for (int i = 0; i < 3; i++) /* older numbers may be there, but no others */
        assert_int_equal(hints_rig_key(rig, 1, i), i == 0 ? 0 : 10);
    for (int i = 0; i < 300; i++)
        counts[hints_choose(rig->hints, 1, 1)]++;
    for (int i = 0; i < 3; i++)
        assert_in_range(counts[i], 50, 150);
}

/* The store deals out what it has, whoever believes that it is uneven. */
static void what_is_even_stays_known(void **state)
{
    struct hints_rig *rig = *state;

    store_rig_split(&rig->store, 30, 3);
    hints_rig_call(rig, learn);
    hints_rig_call(rig, find_short);
    await_idle(rig);
    assert_int_equal(atomic_load(&rig->evened_out), 1);
    for (int i = 0; i < 10; i++)
        assert_in_range(hints_choose(rig->hints, 1, 1), 1, 2);
}

static const struct CMUnitTest tests[] = {
    HINTS_RIG_TEST(what_others_wrote_is_read),
    HINTS_RIG_TEST(each_product_has_its_turn),
    HINTS_RIG_TEST(what_is_no_number_is_unknown),
    HINTS_RIG_TEST(what_was_noted_meanwhile_is_newer),
    HINTS_RIG_TEST(an_uneven_product_is_evened_out_once),
    HINTS_RIG_TEST(what_was_evened_out_is_unknown),
    HINTS_RIG_TEST(what_is_even_stays_known),
};

TEST_MAIN(tests)
