/* The case driver's functions under glibc; under the loader each domain has its own. */
#include <unistd.h>

void case_write(const char *text, unsigned long length)
{
    while (length > 0) {
        long written = write(100, text, length);
        if (written <= 0)
            return;
        text += written;
        length -= written;
    }
}
