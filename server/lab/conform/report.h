/* The suite's table, for a person, for a README and for a program. */
#ifndef REPORT_H
#define REPORT_H

#include "server/lab/conform/suite.h"

/* The table, what differs from what is expected, what was not run. */
void report_text(const struct suite *suite);

/* The table alone: a row for each lock that was run or only could not be. */
void report_markdown(const struct suite *suite);

/* All of it, with the evidence, as one JSON object. */
void report_json(const struct suite *suite);

/* Every difference with its evidence, a line each, on standard error; or what is
 * missing, if no lock was run. */
void report_differences(const struct suite *suite);

#endif
