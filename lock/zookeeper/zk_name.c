/*
 * Paths, tags, and commands about the node of a name.
 */
#include "lock/zookeeper/zk_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lock/zookeeper/zk_node.h"

static const struct dlock_zk_kind *kind_of(const struct dlock_session *session)
{
    return session->client->strategy->variant;
}

/* A name is one piece of the path, whatever is in it. */
void dlock_zk_path(const struct dlock_session *session, const char *name,
                   char path[DLOCK_ZK_PATH_BYTES_MAX + 1])
{
    bool only_dots = strspn(name, ".") == strlen(name);
    size_t len = strlen(kind_of(session)->root);

    memcpy(path, kind_of(session)->root, len);
    path[len++] = '/';
    for (; *name != '\0'; name++) {
        if (*name == '/' || *name == '%' || only_dots)
            len += (size_t)sprintf(path + len, "%%%02X", (unsigned)*name);
        else
            path[len++] = *name;
    }
    path[len] = '\0';
}

void dlock_zk_tag(const struct dlock_session *session, uint64_t attempt,
                  char tag[DLOCK_ZK_TAG_BYTES_MAX + 1])
{
    (void)snprintf(tag, DLOCK_ZK_TAG_BYTES_MAX + 1, "%s:%" PRIu64 ":",
                   session->owner, attempt);
}

void dlock_zk_tag_owner(const char *tag, char owner[DLOCK_OWNER_BYTES_MAX + 1])
{
    (void)snprintf(owner, DLOCK_OWNER_BYTES_MAX + 1, "%.*s",
                   (int)strcspn(tag, ":"), tag);
}

enum dlock_status dlock_zk_run(struct dlock_session *session,
                               const struct dlock_attempt *attempt,
                               struct dlock_zk_command *command,
                               struct dlock_zk_reply *reply,
                               struct dlock_error *error)
{
    command->name = attempt->name;
    return dlock_zk_do(((struct dlock_zk_own *)session->own)->zk, command,
                       attempt->limit_ms, reply, error);
}

static enum dlock_status make_root(struct dlock_session *session,
                                   const struct dlock_attempt *attempt,
                                   uint64_t in, struct dlock_error *error)
{
    struct dlock_zk_command command = {.verb = DLOCK_ZK_CREATE_LASTING,
                                       .step = "make-root",
                                       .path = kind_of(session)->root,
                                       .session = in};
    struct dlock_zk_reply reply;

    return dlock_zk_run(session, attempt, &command, &reply, error);
}

enum dlock_status dlock_zk_run_rooted(struct dlock_session *session,
                                      const struct dlock_attempt *attempt,
                                      struct dlock_zk_command *command,
                                      struct dlock_zk_reply *reply,
                                      struct dlock_error *error)
{
    enum dlock_status status =
        dlock_zk_run(session, attempt, command, reply, error);

    if (status != DLOCK_OK || reply->answer != DLOCK_ZK_NONE)
        return status;
    status = make_root(session, attempt, command->session, error);
    if (status == DLOCK_OK)
        status = dlock_zk_run(session, attempt, command, reply, error);
    return status;
}

enum dlock_status dlock_zk_ask(struct dlock_session *session,
                               const struct dlock_attempt *attempt,
                               enum dlock_zk_verb verb, const char *step,
                               uint64_t in, struct dlock_zk_reply *reply,
                               struct dlock_error *error)
{
    char path[DLOCK_ZK_PATH_BYTES_MAX + 1];
    struct dlock_zk_command command = {
        .verb = verb, .step = step, .path = path, .session = in};

    dlock_zk_path(session, attempt->name, path);
    return dlock_zk_run(session, attempt, &command, reply, error);
}
