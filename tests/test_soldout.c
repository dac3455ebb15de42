/* What is known to be sold out: it may forget, but must not be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "db/soldout.h"

#define SAME_SLOT 1497 /* as 1 */

static struct soldout soldout;

static int fresh(void **state)
{
    (void)state;
    memset(&soldout, 0, sizeof(soldout));
    soldout_init(&soldout, NULL);
    return 0;
}

static void refused(int64_t product_id, int64_t quantity)
{
    soldout_note(&soldout, product_id, quantity, soldout_generation(&soldout));
}

static void nothing_is_known_at_first(void **state)
{
    (void)state;
    for (int64_t id = 0; id < 5000; id++)
        assert_false(soldout_knows(&soldout, id, INT64_MAX));
}

static void what_was_refused_would_be_again_and_more_as_well(void **state)
{
    (void)state;
    refused(7, 3);
    assert_true(soldout_knows(&soldout, 7, 3));
    assert_true(soldout_knows(&soldout, 7, 4));
    assert_false(soldout_knows(&soldout, 7, 2));
    assert_false(soldout_knows(&soldout, 8, 3));
    refused(7, 5);
    assert_true(soldout_knows(&soldout, 7, 3));
    refused(7, 1);
    assert_true(soldout_knows(&soldout, 7, 1));
}

static void a_cancel_ends_what_is_known(void **state)
{
    uint64_t before = soldout_generation(&soldout);

    (void)state;
    refused(7, 1);
    assert_int_equal(soldout_forget(&soldout, NULL), STORE_OK);
    assert_false(soldout_knows(&soldout, 7, 1));
    /* Refused before the cancel, noted after it. */
    soldout_note(&soldout, 7, 1, before);
    assert_false(soldout_knows(&soldout, 7, 1));
    refused(7, 2);
    assert_false(soldout_knows(&soldout, 7, 1));
    assert_true(soldout_knows(&soldout, 7, 2));
}

/* Products that share a slot forget each other, and are never mixed up. */
static void products_that_meet_are_told_apart(void **state)
{
    int64_t known = 0;

    (void)state;
    for (int64_t id = 1; id <= INT64_C(4) * SOLDOUT_SLOTS; id++)
        refused(id, id % 7 + 1);
    for (int64_t id = 1; id <= INT64_C(4) * SOLDOUT_SLOTS; id++) {
        assert_false(soldout_knows(&soldout, id, id % 7));
        known += soldout_knows(&soldout, id, id % 7 + 1) != 0;
    }
    assert_in_range(known, SOLDOUT_SLOTS / 2, SOLDOUT_SLOTS);
}

static void *write_notes(void *stop)
{
    /* Two products of one slot, of which only the first is out for one unit. */
    while (!atomic_load((atomic_bool *)stop)) {
        refused(1, 1);
        refused(SAME_SLOT, 100);
    }
    return NULL;
}

static void a_note_is_read_as_a_whole(void **state)
{
    int64_t other = SAME_SLOT;
    atomic_bool stop = false;
    pthread_t writer;

    (void)state;
    refused(1, 1);
    refused(other, 100);
    assert_false(soldout_knows(&soldout, 1, 1)); /* they do share it */
    pthread_create(&writer, NULL, write_notes, &stop);
    for (int i = 0; i < 300000; i++)
        assert_false(soldout_knows(&soldout, other, 99));
    atomic_store(&stop, true);
    pthread_join(writer, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nothing_is_known_at_first, fresh),
        cmocka_unit_test_setup(what_was_refused_would_be_again_and_more_as_well,
                               fresh),
        cmocka_unit_test_setup(a_cancel_ends_what_is_known, fresh),
        cmocka_unit_test_setup(products_that_meet_are_told_apart, fresh),
        cmocka_unit_test_setup(a_note_is_read_as_a_whole, fresh),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
