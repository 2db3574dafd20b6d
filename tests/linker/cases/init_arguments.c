//# Area: constructors
//# Lib: main.so
//# Env: CASE_VALUE=seen
/* Constructors get argc, argv and envp. */
#include "case.h"
static int count;
static const char *value = "none";
static int has_name;
CONSTRUCTOR static void begin(int argc, char **argv, char **envp)
{
    count = argc;
    has_name = argv[0] != NULL && argv[argc] == NULL;
    for (; *envp; envp++)
        if (!strncmp(*envp, "CASE_VALUE=", 11))
            value = *envp + 11;
}
void test(void) { say("%d %d %s", count > 0, has_name, value); }
