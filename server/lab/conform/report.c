#include "server/lab/conform/report.h"

#include <stdio.h>

static const char *const signs[] = {[CONFORM_UNTESTED] = "–",
                                    [CONFORM_HOLDS] = "✔",
                                    [CONFORM_FAILS] = "✘",
                                    [CONFORM_NOT_ASKED] = "?"};
static const char *const words[] = {[CONFORM_UNTESTED] = "untested",
                                    [CONFORM_HOLDS] = "holds",
                                    [CONFORM_FAILS] = "fails",
                                    [CONFORM_NOT_ASKED] = "not asked"};

/* The word for what is expected of property INDEX. */
static const char *expected_word(const struct suite_lock *lock, size_t index)
{
    if (lock->expected == &lock->own)
        return "anything";
    for (int verdict = CONFORM_UNTESTED; verdict <= CONFORM_FAILS; verdict++)
        if (conform_agrees(lock->expected, index,
                           (enum conform_verdict)verdict))
            return words[verdict];
    return "?";
}

static const char *why_not_run(const struct suite_lock *lock)
{
    return lock->expected ? lock->missing : "no row in expected.c";
}

/* For a person ------------------------------------------------------------- */

static void text_row(const struct suite_lock *lock)
{
    printf("%-17s", lock->info->name);
    if (why_not_run(lock)) {
        printf(" not run: %s\n", why_not_run(lock));
        return;
    }
    for (size_t i = 0; i < PROPERTIES_N; i++)
        printf("  %s%c", signs[lock->results[i].verdict],
               suite_differs(lock, i) ? '!' : ' ');
    printf("\n");
}

static void text_table(const struct suite *suite)
{
    printf("%-17s", "lock");
    for (size_t i = 0; i < PROPERTIES_N; i++)
        printf("  %-2s", properties[i].letter);
    printf("\n");
    for (size_t i = 0; i < suite->locks_n; i++)
        text_row(&suite->locks[i]);
    printf("\n");
    for (size_t i = 0; i < PROPERTIES_N; i++)
        printf("%-2s  %s\n", properties[i].letter, properties[i].text);
}

/* One lock: there is room for the evidence. */
static void text_evidence(const struct suite_lock *lock)
{
    printf("%s: %s\n", lock->info->name, lock->info->claim);
    if (why_not_run(lock))
        printf("\nnot run: %s\n", why_not_run(lock));
    for (size_t i = 0; i < PROPERTIES_N && !why_not_run(lock); i++)
        printf("\n%-2s %s%c %s\n      %s (%u ms)\n", properties[i].letter,
               signs[lock->results[i].verdict],
               suite_differs(lock, i) ? '!' : ' ', properties[i].text,
               lock->results[i].text, lock->results[i].ms);
}

void report_text(const struct suite *suite)
{
    size_t differences = suite_differences(suite);

    if (suite->locks_n == 1)
        text_evidence(&suite->locks[0]);
    else
        text_table(suite);
    printf("\n✔ holds  ✘ fails  – cannot be tested  ? was not run  "
           "! not as expected\n"
           "%zu of %zu locks measured; ",
           suite_measured(suite), suite->locks_n);
    if (suite_measured(suite) == 0)
        printf("so nothing is known\n");
    else if (suite->locks_n == 1 &&
             suite->locks[0].expected == &suite->locks[0].own)
        printf("nothing was expected of a lock of your own\n");
    else if (differences == 0)
        printf("all as expected, failures included\n");
    else
        printf("%zu not as expected\n", differences);
}

void report_differences(const struct suite *suite)
{
    for (size_t i = 0; i < suite->locks_n; i++) {
        const struct suite_lock *lock = &suite->locks[i];

        if (!lock->expected || (lock->missing && suite_measured(suite) == 0))
            fprintf(stderr, "lab: %s not run: %s\n", lock->info->name,
                    why_not_run(lock));
        for (size_t j = 0; j < PROPERTIES_N; j++)
            if (suite_differs(lock, j))
                fprintf(stderr, "lab: %s %s: expected %s, found %s: %s\n",
                        lock->info->name, properties[j].letter,
                        expected_word(lock, j), words[lock->results[j].verdict],
                        lock->results[j].text);
    }
}

/* For a README ------------------------------------------------------------- */

void report_markdown(const struct suite *suite)
{
    printf("| lock |");
    for (size_t i = 0; i < PROPERTIES_N; i++)
        printf(" %s |", properties[i].letter);
    printf("\n|---|");
    for (size_t i = 0; i < PROPERTIES_N; i++)
        printf(":-:|");
    printf("\n");
    for (size_t i = 0; i < suite->locks_n; i++) {
        const struct suite_lock *lock = &suite->locks[i];

        printf("| `%s` |", lock->info->name);
        for (size_t j = 0; j < PROPERTIES_N; j++)
            printf(" %s |",
                   why_not_run(lock) ? "?" : signs[lock->results[j].verdict]);
        printf("\n");
    }
}

/* For a program ------------------------------------------------------------ */

static void json_string(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text < ' ')
            printf("\\u%04x", (unsigned)*text);
        else
            putchar(*text);
    }
    putchar('"');
}

static void json_property(const struct suite_lock *lock, size_t index)
{
    const struct conform_result *result = &lock->results[index];

    printf("%s\n      \"%s\": {\"verdict\": \"%s\", \"expected\": \"%s\", "
           "\"ms\": %u, \"evidence\": ",
           index > 0 ? "," : "", properties[index].letter,
           words[result->verdict], expected_word(lock, index), result->ms);
    json_string(result->text);
    printf("}");
}

static void json_lock(const struct suite_lock *lock)
{
    printf("    {\"name\": \"%s\", \"claim\": ", lock->info->name);
    json_string(lock->info->claim);
    if (why_not_run(lock)) {
        printf(", \"not_run\": ");
        json_string(why_not_run(lock));
        printf("}");
        return;
    }
    printf(", \"properties\": {");
    for (size_t i = 0; i < PROPERTIES_N; i++)
        json_property(lock, i);
    printf("}}");
}

void report_json(const struct suite *suite)
{
    printf("{\"differences\": %zu,\n  \"locks\": [\n",
           suite_differences(suite));
    for (size_t i = 0; i < suite->locks_n; i++) {
        json_lock(&suite->locks[i]);
        fputs(i + 1 < suite->locks_n ? ",\n" : "\n", stdout);
    }
    printf("  ]}\n");
}
