/*
 * The files of experiments that are built in: each is there in both languages, and has
 * a number and a name of its own. tests/e2e/lab-file.t has what any file can have wrong.
 */
#include <string.h>

#include "server/lab/experiments/experiment.h"
#include "server/lab/load/load.h"
#include "tests/support/unit_test.h"

#define TEXT "title t\nsymptom s\nsee s\nwhy w\nfix f\n"
#define FILE_OF(kind, chinese, plays)                                          \
    "family f\n" kind "[en]\n" TEXT chinese plays
#define CHINESE "[zh]\n" TEXT
#define BUG     "[bug]\nlock setnx\nschedule a a!\nfaults left-for-ever\n"
#define LOAD    "[bug]\nlock setnx\ninstances 2\nflags --think-ms 1\n"

static bool read_ours(const char *name, const char *content,
                      struct experiment *experiment, char error[200])
{
    return experiment_read(name, strdup(content), true, experiment, error, 200);
}

static void all_are_read(NO_STATE)
{
    const struct experiment *one = NULL;
    size_t n = 0;

    for (; (one = experiment_at(n)) != NULL; n++)
        for (int i = 0; i < EXPERIMENT_LANGUAGES_N; i++)
            assert_non_null(one->text[i].title);
    assert_true(n > 50);
}

static void what_is_wrong_is_told_with_its_line(NO_STATE)
{
    static const struct {
        const char *content, *error;
    } cases[] = {
        {FILE_OF("", "", BUG), "08-a.txt:11: [zh] has no title"},
        {FILE_OF("", "[zh]\ntitle t\n", BUG),
         "08-a.txt:13: [zh] has no symptom"},
        {"[en]\n" TEXT CHINESE BUG, "08-a.txt:16: there is no family"},
        {FILE_OF("", CHINESE, ""), "08-a.txt:13: [bug] has no lock"},
        {FILE_OF("", CHINESE, "[fix]\nlock setnx\n"),
         "08-a.txt:14: there is no [bug] with a lock before it"},
        {FILE_OF("", CHINESE, BUG "[rest]\nlock set-nx-px\n"),
         "08-a.txt:19: [en] has no rest, as the plays have one"},
        {FILE_OF("", CHINESE, LOAD),
         "08-a.txt:16: instances is no setting of the stage"},
        {FILE_OF("kind loud\n", CHINESE, LOAD),
         "08-a.txt:2: kind is steps or load"},
        {FILE_OF("kind load\n", CHINESE, LOAD "story a b x\n"),
         "08-a.txt:19: 'x' is not a word of a story"},
        {FILE_OF("kind load\n", CHINESE, LOAD "judge us\n"),
         "08-a.txt:19: measure.c has no function 'us'"},
        {FILE_OF("kind load\n", CHINESE, LOAD "c --workers 1\n"),
         "08-a.txt:19: there is no 'c' with real instances"},
        {FILE_OF("kind load\n", CHINESE, LOAD "sold many\n"),
         "08-a.txt:19: sold takes 0 to 1000000"},
    };

    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct experiment experiment;
        char error[200] = "";

        assert_false(
            read_ours("08-a.txt", cases[i].content, &experiment, error));
        assert_string_equal(error, cases[i].error);
    }
}

static void two_of_one_number_or_name_are_refused(NO_STATE)
{
    static const char *const names[][2] = {{"08-a.txt", "08-b.txt"},
                                           {"08-a.txt", "09-a.txt"}};
    struct experiment two[2];
    char error[200] = "";

    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < 2; j++)
            assert_true(read_ours(names[i][j], FILE_OF("", CHINESE, BUG),
                                  &two[j], error));
        assert_false(experiment_all_distinct(two, 2, error, sizeof(error)));
        assert_non_null(strstr(error, "08-a and 0"));
        experiment_release(&two[0]);
        experiment_release(&two[1]);
    }
}

static void a_play_has_what_the_one_before_it_has(NO_STATE)
{
    static const char content[] =
        "family f\nkind load\n[en]\n" TEXT "rest r\n" CHINESE "rest r\n" LOAD
        "a --workers 1\nstory a\nsold any\njudge polls\n"
        "[fix]\nlock set-nx-px\nstory b\nsold 1\n"
        "[rest]\na --workers 2\nsold 2\n";
    struct experiment experiment;
    const struct experiment_play *plays = experiment.plays;
    char error[200] = "";

    assert_true(read_ours("08w-a-b.txt", content, &experiment, error));
    assert_string_equal(experiment.id, "08w");
    assert_string_equal(experiment.name, "a-b");
    for (unsigned i = 0; i < EXPERIMENT_PLAYS_N; i++) {
        const struct experiment_load *load = plays[i].load;

        assert_int_equal(load->instances, 2);
        assert_string_equal(load->lock, i == 0 ? "setnx" : "set-nx-px");
        assert_string_equal(load->each[0],
                            i == 2 ? "--workers 2" : "--workers 1");
        assert_string_equal(plays[i].schedule, i == 1 ? "b" : "a");
        assert_int_equal(plays[i].sold, i == 0 ? LOAD_SOLD_ANY : (int)i);
        assert_int_equal(load->judge != NULL, i == 0);
    }
    experiment_release(&experiment);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(all_are_read),
    cmocka_unit_test(what_is_wrong_is_told_with_its_line),
    cmocka_unit_test(two_of_one_number_or_name_are_refused),
    cmocka_unit_test(a_play_has_what_the_one_before_it_has),
};

TEST_MAIN(tests)
