#include "tests/support/rights_rig.h"

#include "tests/support/unit_test.h"

/* The table ------------------------------------------------------------------ */

/* "~{NAME}:dlock\-*" as a right about the lock "k". */
static void add(struct rights *rights, const char *word)
{
    char *to = rights->list[rights->n];
    const char *end = to + RIGHT_BYTES_MAX - 1;

    assert_true(rights->n++ < RIGHTS_MAX);
    while (*word != '\0' && *word != ';' && *word != ',' && to < end) {
        bool is_name = strncmp(word, "NAME", 4) == 0;

        if (*word != '\\')
            *to++ = *(is_name ? "k" : word);
        word += is_name ? 4 : 1;
    }
    *to = '\0';
}

static bool is_head(const char *line, const char *head)
{
    char plain[200];
    char *to = plain;
    const char *at;

    if (strncmp(line, ".B ", 3) != 0)
        return false;
    for (at = line + 3; *at != '\0' && *at != '\n'; at++)
        if (*at != '\\')
            *to++ = *at;
    *to = '\0';
    if (strcmp(plain, head) == 0)
        return true;
    /* One of several. */
    for (char *one = strtok(plain, ","); one != NULL; one = strtok(NULL, ","))
        if (strcmp(one + (*one == ' '), head) == 0)
            return true;
    return false;
}

/* Adds the rights of the row HEAD of the manual page. */
void rights_add_row(struct rights *rights, const char *head)
{
    FILE *page = fopen("lock/dlock.3", "r");
    bool in_section = false, in_row = false;
    size_t before = rights->n;
    char line[400];

    assert_non_null(page);
    while (fgets(line, sizeof(line), page) != NULL) {
        if (strncmp(line, ".SH ", 4) == 0)
            in_row = false, in_section = strcmp(line, ".SH RIGHTS\n") == 0;
        else if (in_section && line[0] == '.')
            in_row = is_head(line, head);
        else if (in_row)
            for (char *word = strtok(line, " \n"); word != NULL;
                 word = strtok(NULL, " \n"))
                if (strchr("+~&", word[0]) != NULL)
                    add(rights, word);
    }
    (void)fclose(page);
    if (rights->n == before)
        fail_msg("no rights of %s in dlock(3)", head);
}

/* The user ------------------------------------------------------------------- */

void rights_give(const struct redis_server *server, const struct rights *rights,
                 size_t less)
{
    char command[2000] = "ACL SETUSER shop reset on nopass";
    char reply[200];

    for (size_t i = 0; i < rights->n; i++)
        if (i != less)
            (void)snprintf(command + strlen(command),
                           sizeof(command) - strlen(command), " %s",
                           rights->list[i]);
    redis_server_ask(server, command, reply, sizeof(reply));
    assert_string_equal(reply, "+OK\r\n");
    redis_server_ask(server, "SCRIPT FLUSH", NULL, 0);
    redis_server_ask(server, "FLUSHALL", NULL, 0);
    redis_server_ask(server, "ACL LOG RESET", NULL, 0);
}

const char *rights_url(const struct redis_server *server, char url[300])
{
    (void)snprintf(url, 300, "%s?user=shop&password=x",
                   redis_server_url(server));
    return url;
}

void rights_assert_enough(const struct redis_server *server, const char *what)
{
    char reply[400];

    redis_server_ask(server, "ACL LOG 1", reply, sizeof(reply));
    if (strcmp(reply, "*0\r\n") != 0)
        fail_msg("%s: refused by its own row: %s", what, reply);
}

/* "+pubsub|numsub" is told as "pubsub"; a key, as one of the keys. */
void rights_assert_named(const char *what, const char *right,
                         const struct outcome *outcome)
{
    const char *text = outcome->error.text;
    char name[RIGHT_BYTES_MAX];

    (void)snprintf(name, sizeof(name), "%s",
                   right[0] == '~'   ? "key"
                   : right[0] == '&' ? "publish {k}:dlock-"
                                     : right + 1);
    name[strcspn(name, "|")] = '\0';
    if (outcome->status == DLOCK_OK || outcome->status == DLOCK_LOST ||
        outcome->status == DLOCK_TIMEOUT)
        fail_msg("%s without %s: %s, %s", what, right,
                 dlock_status_text(outcome->status), text);
    if (strcasestr(text, name) == NULL)
        fail_msg("%s without %s: '%s' does not name it", what, right, text);
}
