/* The judge of a stop is the search: nothing in its file says which choice is right. See
 * path.h. */
#include <stdlib.h>

#include "server/lab/explore/explore.h"
#include "server/lab/path/path.h"
#include "server/lab/picture/draw.h"

/* A search, and the answer that it gives. */
struct judgement {
    char choice;
    enum path_answer answer;
    struct explore explore; /* with the faults that count against it */
    enum stage_fault fault; /* the nearest of them; STAGE_FAULT_N = none */
    unsigned others;        /* that were found on the way */
    bool is_new;            /* the stop's own lock has another one */
    unsigned look;
};

/* Faults of another kind are no answer; they are told beside it. */
static void sort_out(struct judgement *judgement, unsigned against)
{
    struct search_found *faults = judgement->explore.result.faults;
    int nearest = STAGE_FAULT_N;

    for (int i = 0; i < STAGE_FAULT_N; i++) {
        if (!faults[i].is_found)
            continue;
        if ((against & 1u << i) == 0) {
            judgement->others |= 1u << i;
            faults[i].is_found = false;
        } else if (nearest == STAGE_FAULT_N ||
                   faults[i].n < faults[nearest].n) {
            nearest = i;
        }
    }
    judgement->fault = (enum stage_fault)nearest;
    judgement->answer = nearest < STAGE_FAULT_N              ? PATH_BREAKS
                        : judgement->explore.result.is_whole ? PATH_HOLDS
                                                             : PATH_UNKNOWN;
}

static void tell_others(const struct judgement *judgement)
{
    for (int i = 0; i < STAGE_FAULT_N; i++)
        if (judgement->others & 1u << i)
            draw_say(stdout, judgement->look, "but something else breaks: %s\n",
                     stage_fault_text((enum stage_fault)i));
}

static void tell(const struct judgement *judgement, const char *schedule)
{
    const struct explore *explore = &judgement->explore;
    char verdict[EXPLORE_VERDICT_BYTES];

    if (judgement->answer == PATH_BREAKS) {
        draw_say(stdout, judgement->look,
                 judgement->is_new ? "it breaks in another way: %s\n"
                                   : "it still breaks: %s\n",
                 stage_fault_text(judgement->fault));
        printf("  ");
        command_replay(stdout, &explore->scene, schedule);
        putchar('\n');
        return;
    }
    draw_say(stdout, judgement->look, "%s\n",
             explore_verdict(explore, verdict));
    tell_others(judgement);
    if (judgement->answer == PATH_UNKNOWN)
        draw_say(stdout, judgement->look,
                 "time was up first: that is no answer yet\n");
    explore_tell_bounds(stdout, explore);
}

static void tell_json(const struct judgement *judgement, const char *schedule)
{
    static const char *const answers[] = {"holds", "breaks", "unknown"};
    const struct explore *explore = &judgement->explore;
    bool breaks = judgement->answer == PATH_BREAKS;
    char verdict[EXPLORE_VERDICT_BYTES], *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (out) {
        explore_tell_bounds(out, explore);
        (void)fclose(out);
    }
    draw_json_line(
        stdout,
        json_pack(
            "{s:o, s:s, s:o, s:s, s:s*, s:s*, s:o, s:i}", "choice",
            json_sprintf("%c", judgement->choice ? judgement->choice : '-'),
            "answer", answers[judgement->answer], "says",
            draw_json_text(explore_verdict(explore, verdict), judgement->look),
            "bounds", text ? text : "", "fault",
            breaks ? stage_fault_word(judgement->fault) : NULL, "schedule",
            breaks ? schedule : NULL, "others",
            draw_json_faults(judgement->others), "moves",
            (int)explore->result.moves));
    free(text);
}

enum path_answer path_judge(const struct path_stop *stop, char choice,
                            unsigned seconds, bool json, unsigned look,
                            char *error, size_t error_size)
{
    static struct judgement judgement;
    struct explore *explore = &judgement.explore;
    char schedule[4 * STAGE_MOVES_MAX + 1] = "";
    unsigned against = stop->faults | stop->without;
    const struct search_found *found;

    judgement = (struct judgement){.choice = choice, .look = look};
    *explore = (struct explore){.scene = *path_scene(stop, choice),
                                .bounds = stop->bounds,
                                .seconds = seconds,
                                .enough = against,
                                .look = look};
    if (!explore_search(explore, error, error_size))
        return PATH_FAILED;
    sort_out(&judgement, against);
    judgement.is_new = (stop->faults & 1u << judgement.fault) == 0;
    if (judgement.fault != STAGE_FAULT_N) {
        found = &explore->result.faults[judgement.fault];
        stage_text(found->moves, found->n, schedule, sizeof(schedule));
    }
    if (json)
        tell_json(&judgement, schedule);
    else
        tell(&judgement, schedule);
    return judgement.answer;
}
