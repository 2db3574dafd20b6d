/* Goes on from databases.c. */

/* Numbers. */
static void random_numbers(int me, struct text *out)
{
    srand(me + 5);
    for (int i = 0; i < 4; i++) {
        meet();
        say(out, "%d %ld\n", rand(), random());
    }
    srandom(me);
    meet();
    say(out, "%ld\n", random());
    char table[64];
    char *old = initstate(me + 9, table, sizeof table);
    meet();
    long number = random();
    char *mine = setstate(old);
    meet();
    say(out, "%ld %d %ld\n", number, mine == table, random());
}
static void congruent_numbers(int me, struct text *out)
{
    unsigned short x[3] = { me, 1, 2 };
    srand48(me + 5);
    for (int i = 0; i < 3; i++) {
        meet();
        say(out, "%.12f %ld %ld\n", drand48(), lrand48(), mrand48());
        say(out, "%.12f %ld %ld\n", erand48(x), nrand48(x), jrand48(x));
    }
    unsigned short *before = seed48(x);
    meet();
    say(out, "%d %d %d %ld\n", before[0], before[1], before[2], lrand48());
    unsigned short parameters[7] = { me, 2, 3, 4, 5, 6, 7 };
    lcong48(parameters);
    meet();
    say(out, "%ld\n", lrand48());
}
static void gammas(int me, struct text *out)
{
    double number = me == 1 ? -0.5 : 0.5;
#define GAMMA(function) { double result = function(number); meet(); say(out, "%.9f %d\n", result, signgam); }
    GAMMA(lgamma) GAMMA(lgammaf) GAMMA(lgammal) GAMMA(gamma) GAMMA(gammaf) GAMMA(gammal)
    GAMMA(lgammaf32) GAMMA(lgammaf64) GAMMA(lgammaf32x) GAMMA(lgammaf64x)
}

/* Texts. */
static void tokens(int me, struct text *out)
{
    char text[] = "0a 0b 0c 0d", *token;
    for (char *c = text; *c; c += 3)
        *c += me;
    for (token = strtok(text, " "); token; token = strtok(NULL, " ")) {
        meet();
        say(out, "%s\n", token);
    }
}
static void times(int me, struct text *out)
{
    time_t time = me * 123456789L;
    struct tm *parts = gmtime(&time);
    meet();
    say(out, "%d %d %d\n", parts->tm_year, parts->tm_yday, parts->tm_sec);
    parts = localtime(&time);
    meet();
    say(out, "%d %d %d\n", parts->tm_year, parts->tm_yday, parts->tm_sec);
    char *text = ctime(&time);
    meet();
    say(out, "%s", text);
    struct tm odd = { .tm_year = 12345 + me, .tm_mon = 13, .tm_wday = me, .tm_mday = -3, .tm_hour = 7, .tm_sec = -1 };
    text = asctime(&odd);
    meet();
    say(out, "%s", text);
    odd.tm_year = 0x7fffffff;
    text = asctime(&odd);
    say(out, "%d %d\n", text == NULL, errno);
}
static void zones(int me, struct text *out)
{
    time_t time = me * 123456789L;
    struct tm parts, copy = { 0 };
    char text[64];
    wchar_t wide[64];
    locale_t locale = newlocale(LC_ALL_MASK, "C", NULL);
    tzset();
    gmtime_r(&time, &parts);
    meet();
    say(out, "%ld %ld %ld\n", timegm(&parts), mktime(&parts), timelocal(&parts));
    say(out, "%d %s", localtime_r(&time, &copy) == &copy, ctime_r(&time, text));
    strftime(text, sizeof text, "%c %Z", &copy);
    say(out, "%s %s", text, or_none(strptime("2001-02-03", "%Y-%m-%d", &copy)));
    strftime_l(text, sizeof text, "%c %s", &copy, locale);
    wcsftime(wide, 64, L"%A", &copy);
    say(out, "%s %ls %zu", text, wide, wcsftime_l(wide, 64, L"%B", &copy, locale));
    say(out, " %ls %d\n", wide, getdate_r("2001-02-04", &copy));
}
extern char *__tzname[2];
extern long __timezone;
extern int __daylight;
/* Local times around each change of the clock in some years, by the moment and by the parts. */
static void own_zones(int me, struct text *out)
{
    const char *all[3][4] = {
        { "America/New_York", "Europe/Dublin", "<+03>-3", "Asia/Tokyo" },
        { ":Australia/Lord_Howe", "EST5EDT4,M3.2.0,M11.1.0", "Africa/Casablanca", "" },
        { "CET-1CEST,M3.5.0,M10.5.0/3", "America/Sao_Paulo", "Nowhere/There", "Antarctica/Troll" },
    };
    struct tm parts, back;
    char text[128];
    wchar_t wide[64];
    locale_t locale = newlocale(LC_ALL_MASK, "C", NULL);
    for (int number = 0; number < 4; number++) {
        unsigned long sum = 0;
        setenv("TZ", all[me][number], 1);
        tzset();
        meet();
        say(out, "%d %d %d\n", tzname == __tzname, &timezone == &__timezone, &daylight == &__daylight);
        say(out, "%s %ld %d\n", tzname[0], timezone, daylight);
        for (time_t time = 1262304000; time < 1800000000; time += 60 * 60 * 11 + 17) {
            localtime_r(&time, &parts);
            back = parts;
            time_t known = mktime(&back);
            back = parts;
            back.tm_isdst = -1;
            /* Where two moments have these parts, glibc's answer depends on earlier questions. */
            time_t guessed = mktime(&back);
            struct tm again;
            localtime_r(&guessed, &again);
            sum = sum * 31 + parts.tm_hour * 61 + parts.tm_min + parts.tm_mday * 7 + parts.tm_isdst + parts.tm_gmtoff;
            if (known != time || again.tm_hour != parts.tm_hour)
                say(out, "%ld is %ld or %ld\n", (long)time, (long)known, (long)guessed);
            if (time / 86400 % 97 == 0) {
                meet();
                say(out, "%ld %d:%d %s %ld\n", (long)time, parts.tm_hour, parts.tm_min, parts.tm_zone, (long)(known - time));
            }
        }
        say(out, "%lx\n", sum);
        time_t time = 1500000000;
        meet();
        say(out, "%s", ctime(&time));
        say(out, "%s %d\n", ctime_r(&time, text), localtime(&time)->tm_hour);
        localtime_r(&time, &parts);
        strftime(text, sizeof text, "%c %Z %z %s %%s %d", &parts);
        say(out, "%s", text);
        strftime_l(text, sizeof text, "|%s|%-d", &parts, locale);
        wcsftime(wide, 64, L"%H %Z %s", &parts);
        say(out, " %s %ls", text, wide);
        wcsftime_l(wide, 64, L"%s%%", &parts, locale);
        say(out, " %ls\n", wide);
        /* A day that no month has, in each kind of time. */
        for (int kind = -1; kind < 2; kind++) {
            struct tm odd = { .tm_year = 118, .tm_mon = 14, .tm_mday = 40, .tm_hour = 30, .tm_isdst = kind };
            time = timelocal(&odd);
            meet();
            say(out, "%ld %d %d %d %d\n", (long)time, odd.tm_mon, odd.tm_mday, odd.tm_hour, odd.tm_isdst);
        }
        struct tm far = { .tm_year = 0x7fffffff, .tm_mon = 11, .tm_mday = 31 };
        say(out, "%ld\n", (long)mktime(&far) < 0 ? -1 : 1);
    }
    unsetenv("TZ");
    tzset();
}
static void dates(int me, struct text *out)
{
    const char *texts[] = { "2001-02-03", "nonsense", "1999-09-09" };
    getdate_err = 40 + me;
    struct tm *date = getdate(texts[me]);
    meet();
    say(out, "%d %d %d\n", date ? date->tm_year : -1, date ? date->tm_mday : -1, getdate_err);
}
static void texts(int me, struct text *out)
{
    int point, sign;
    unsigned char bytes[3] = { me, 2, 3 };
    struct ether_addr *hardware, address = { { 1, 2, 3, 4, 5, me } };
    const char *addresses[] = { "1:2:3:4:5:6", "7:8:9:a:b:c", "d:e:f:0:1:2" };
    char *all[9];
    all[0] = ecvt(1.5 + me, 8, &point, &sign);
    all[1] = fcvt(2.5 + me, 8, &point, &sign);
    all[2] = l64a(123456789L * (me + 1));
    all[3] = ether_ntoa(&address);
    all[4] = inet_nsap_ntoa(3, bytes, NULL);
    all[5] = cuserid(NULL);
    all[6] = getlogin();
    all[7] = qecvt(3.5L + me, 9, &point, &sign);
    all[8] = qfcvt(1e4000L * (me + 1), 2, &point, &sign);
    hardware = ether_aton(addresses[me]);
    meet();
    for (int i = 0; i < 9; i++)
        say(out, "%.100s\n", or_none(all[i]));
    say(out, "%d %d\n", hardware->ether_addr_octet[0], hardware->ether_addr_octet[5]);
    all[1] = fcvt(1e40 * (me + 1), 3, &point, &sign);
    meet();
    say(out, "%s\n", all[1]);
}
/* Not linked with: a machine may have no libcrypt. */
static void hashes(int me, struct text *out)
{
    const char *words[] = { "one", "two", "three" };
    void *library = dlopen("libcrypt.so.1", RTLD_LAZY);
    char *(*hash)(const char *, const char *) = NULL;
    if (library)
        hash = (char *(*)(const char *, const char *))dlsym(library, "crypt");
    char *text = hash ? hash(words[me], "$5$rounds=1000$salt") : NULL;
    meet();
    say(out, "%s\n", or_none(text));
}
static void file_names(int me, struct text *out)
{
    char *(*name)(char *) = tmpnam;
    char *text = name(NULL), copy[64];
    strcpy(copy, text);
    meet();
    say(out, "%d %.5s\n", strcmp(copy, text), text);
}
static void terminal_names(int me, struct text *out)
{
    int first = posix_openpt(O_RDWR | O_NOCTTY);
    char own[64], *text = ptsname(first);
    if (ptsname_r(first, own, sizeof own)) {
        say(out, "none\n");
        text = NULL;
    }
    meet();
    say(out, "%d\n", text ? strcmp(text, own) : 0);
    unlockpt(first);
    int second = text ? open(own, O_RDWR | O_NOCTTY) : -1;
    text = ttyname(second);
    meet();
    say(out, "%d\n", text ? strcmp(text, own) : 0);
    text = ttyname(-1);
    int error = errno;
    say(out, "%d %d %d\n", text == NULL, error, ttyslot());
    close(first);
    close(second);
}

/* Characters, which may come in parts. */
static void characters(int me, struct text *out)
{
    const char *texts[] = { "\xe2\x82\xac", "\xe2\x82\xad", "\xc3\xa9" };
    const char *text = texts[me];
    wchar_t wide = 0, more[8];
    char32_t c32 = 0;
    char16_t c16 = 0;
    char bytes[16];
    const char *rest;
    const wchar_t *wide_rest;
    int length = strlen(text) - 1;
    setlocale(LC_CTYPE, "C.utf8");
#define PARTS(first, second) { long part = (long)(first); meet(); say(out, "%ld ", part); part = (long)(second); say(out, "%ld\n", part); }
    PARTS(mbrtowc(&wide, text, 1, NULL), mbrtowc(&wide, text + 1, length, NULL))
    say(out, "%x\n", wide);
    PARTS(mbrlen(text, 1, NULL), mbrlen(text + 1, length, NULL))
    PARTS(mbrtoc32(&c32, text, 1, NULL), mbrtoc32(&c32, text + 1, length, NULL))
    say(out, "%x\n", c32);
    PARTS(mbrtoc16(&c16, text, 1, NULL), mbrtoc16(&c16, text + 1, length, NULL))
    say(out, "%x\n", c16);
    PARTS(mbtowc(&wide, text, 1), mbtowc(&wide, text + 1, length))
    say(out, "%x\n", wide);
    mbtowc(NULL, NULL, 0);
    PARTS(mblen(text, 1), mblen(text, 3))
    rest = text;
    PARTS(mbsnrtowcs(more, &rest, 1, 8, NULL), (rest = text + 1, mbsnrtowcs(more, &rest, length, 8, NULL)))
    say(out, "%x\n", more[0]);
    rest = text;
    PARTS(mbsrtowcs(more, &rest, 8, NULL), more[0])
    PARTS(c16rtomb(bytes, 0xd83d, NULL), c16rtomb(bytes, 0xde00 + me, NULL))
    say(out, "%.4s\n", bytes);
    PARTS(c32rtomb(bytes, 0x20ac, NULL), wcrtomb(bytes, 0x20ac, NULL))
    PARTS(wctomb(NULL, 0), wctomb(bytes, 0x20ac))
    wide_rest = L"\u20ac1";
    PARTS(wcsrtombs(bytes, &wide_rest, 16, NULL), bytes[3])
    wide_rest = L"\u20ac1";
    PARTS(wcsnrtombs(bytes, &wide_rest, 1, 16, NULL), bytes[2])
    setlocale(LC_CTYPE, "C");
}
/* The forms that a compiler uses for -D_FORTIFY_SOURCE. */
extern size_t __mbsrtowcs_chk(wchar_t *, const char **, size_t, mbstate_t *, size_t);
extern size_t __mbsnrtowcs_chk(wchar_t *, const char **, size_t, size_t, mbstate_t *, size_t);
extern size_t __wcsrtombs_chk(char *, const wchar_t **, size_t, mbstate_t *, size_t);
extern size_t __wcsnrtombs_chk(char *, const wchar_t **, size_t, size_t, mbstate_t *, size_t);
extern size_t __wcrtomb_chk(char *, wchar_t, mbstate_t *, size_t);
extern int __wctomb_chk(char *, wchar_t, size_t);
extern size_t __mbrlen(const char *, size_t, mbstate_t *);
extern size_t __mbrtowc(wchar_t *, const char *, size_t, mbstate_t *);
static void checked_characters(int me, struct text *out)
{
    const char *texts[] = { "\xe2\x82\xac", "\xe2\x82\xad", "\xc3\xa9" };
    const char *text = texts[me], *rest = text;
    int length = strlen(text) - 1;
    wchar_t more[8] = { 0 };
    char bytes[16];
    const wchar_t *wide_rest = L"\u20ac1";
    setlocale(LC_CTYPE, "C.utf8");
    PARTS(__mbsnrtowcs_chk(more, &rest, 1, 8, NULL, 8), (rest = text + 1, __mbsnrtowcs_chk(more, &rest, length, 8, NULL, 8)))
    say(out, "%x\n", more[0]);
    PARTS(__mbrlen(text, 1, NULL), __mbrlen(text + 1, length, NULL))
    PARTS(__mbrtowc(more, text, 1, NULL), __mbrtowc(more, text + 1, length, NULL))
    rest = text;
    PARTS(__mbsrtowcs_chk(more, &rest, 8, NULL, 8), more[0])
    PARTS(__wcsrtombs_chk(bytes, &wide_rest, 16, NULL, 16), bytes[3])
    wide_rest = L"\u20ac1";
    PARTS(__wcsnrtombs_chk(bytes, &wide_rest, 1, 16, NULL, 16), bytes[2])
    PARTS(__wcrtomb_chk(bytes, 0x20ac, NULL, 16), __wctomb_chk(bytes, 0x20ac, 16))
    setlocale(LC_CTYPE, "C");
}
static void answers_to_questions(int me, struct text *out)
{
    const char *texts[] = { "yes", "no", "perhaps" };
    int answer = rpmatch(texts[me]);
    meet();
    say(out, "%d\n", answer);
}

/* Messages. The folder of the test has catalogs in folders 0, 1 and 2. */
extern char *__dgettext(const char *, const char *), *__dcgettext(const char *, const char *, int);
static void messages(int me, struct text *out)
{
    char folder[200], name[] = "own0";
    snprintf(folder, sizeof folder, "%s/%d", getenv("CASES"), me);
    name[3] += me;
    setlocale(LC_ALL, "C.utf8");
    say(out, "%s\n", textdomain(name));
    bindtextdomain(name, folder);
    bindtextdomain("shared", folder);
    bind_textdomain_codeset("shared", me == 1 ? "UTF-8" : "ASCII");
    meet();
    char *found = bindtextdomain("shared", NULL);
    say(out, "%s %s %s\n", textdomain(NULL), found + strlen(found) - 1, bind_textdomain_codeset("shared", NULL));
    for (int i = 0; i < 2; i++) {
        say(out, "%s %s\n", gettext("word"), dgettext("shared", "word"));
        say(out, "%s %s %s\n", __dgettext("shared", "word"), dcgettext("shared", "word", LC_MESSAGES), __dcgettext("shared", "word", LC_MESSAGES));
        say(out, "%s %s\n", ngettext("word", "words", 1), dngettext("shared", "word", "words", 2));
        say(out, "%s %s\n", dcngettext("shared", "word", "words", 1, LC_MESSAGES), dgettext("unbound", "word"));
        meet();
        bindtextdomain("shared", folder);
    }
    textdomain("");
    meet();
    say(out, "%s %s\n", textdomain(NULL), gettext("word"));
    say(out, "%d %d\n", bindtextdomain("", folder) == NULL, bind_textdomain_codeset("other", NULL) == NULL);
    setlocale(LC_ALL, "C");
}

/* Arguments. */
static void options(int me, struct text *out)
{
    char *sets[][9] = {
        { "zero", "-abvalue", "other", "-c", "--", "-a", NULL },
        { "one", "file", "-ab", "value", "-x", "-cb", NULL },
        { "two", "-ca", "file", "-b", "value", "last", NULL },
    };
    static const struct option lengthy[] = {
        { "alpha", 0, NULL, 'A' }, { "alphabet", 1, NULL, 'B' }, { "beta", 2, NULL, 'C' }, { NULL, 0, NULL, 0 },
    };
    char *long_sets[][9] = {
        { "zero", "--alpha", "x", "--beta=1", "-beta", "--alphab", "2", "--al", NULL },
        { "one", "--alphabet", "--beta", "--gamma", "y", "-alpha=3", "--alphabet", NULL },
        { "two", "-a", "--beta", "-b4", "--alpha", "--", "z", "-c", NULL },
    };
    for (int form = 0; form < 6; form++) {
        char **arguments = form < 3 ? sets[me] : long_sets[me];
        char *copies[9];
        int count = 0, option, index;
        for (; arguments[count]; count++)
            copies[count] = arguments[count];
        copies[count] = NULL;
        optind = 0;
        opterr = 0;
        const char *known = form == 1 ? "+ab:c" : form == 2 ? "-ab:c" : form == 5 ? ":ab::cW;" : "ab:c";
        for (int i = 0; i < 9; i++) {
            index = -1;
            optarg = NULL;
            option = form < 3 ? getopt(count, copies, known)
                : form == 4 ? getopt_long_only(count, copies, known, lengthy, &index)
                            : getopt_long(count, copies, known, lengthy, &index);
            meet();
            say(out, "%d %s %d %d %d\n", option, or_none(option == -1 ? NULL : optarg), optind, strchr("?:", option) ? optopt : 0, index);
        }
        say_all(out, copies);
    }
}
extern int __posix_getopt(int, char **, const char *);
static void options_of_posix(int me, struct text *out)
{
    char *sets[][4] = { { "zero", "-a", "x", NULL }, { "one", "x", "-a", NULL }, { "two", "-aa", "-a", NULL } };
    optind = 0;
    for (int i = 0; i < 3; i++) {
        int option = __posix_getopt(3, sets[me], "a");
        meet();
        say(out, "%d %d\n", option, optind);
    }
}

/* Tables and expressions. */
static void tables(int me, struct text *out)
{
    char *keys[] = { "a", "b", "c" };
    say(out, "%d\n", hcreate(10));
    hsearch((ENTRY){ keys[me], keys[me] }, ENTER);
    meet();
    for (int i = 0; i < 3; i++) {
        ENTRY *found = hsearch((ENTRY){ keys[i], NULL }, FIND);
        say(out, "%s\n", found ? (char *)found->data : "none");
    }
    meet();
    hdestroy();
}
static void expressions(int me, struct text *out)
{
    const char *texts[] = { "^a*$", "^b\\+$", "^c$" };
    reg_syntax_t kinds[] = { RE_SYNTAX_EMACS, RE_SYNTAX_POSIX_BASIC, RE_SYNTAX_POSIX_EXTENDED };
    re_set_syntax(kinds[me]);
    say(out, "%s\n", or_none(re_comp(texts[me])));
    meet();
    say(out, "%d %d %d\n", re_exec("aa"), re_exec("bb"), re_exec("c"));
    say(out, "%d\n", re_set_syntax(0) == kinds[me]);
    re_syntax_options = kinds[me];
    meet();
    struct re_pattern_buffer own = { 0 };
    say(out, "%s", or_none(re_compile_pattern("(d+)", 4, &own)));
    say(out, " %d\n", regexec(&own, "dd", 0, NULL, 0));
    regfree(&own);
    re_set_syntax(0);
}

/* The file of who is logged in, one for each program. */
static void logins(int me, struct text *out)
{
    char file[200];
    snprintf(file, sizeof file, "%s/logins%d", getenv("CASES"), me);
    close(open(file, O_CREAT | O_TRUNC | O_RDWR, 0600));
    utmpname(file);
    struct utmp login = { .ut_type = USER_PROCESS, .ut_pid = 100 + me, .ut_id = "0", .ut_line = "tty0", .ut_user = "0" };
    login.ut_id[0] = login.ut_line[3] = login.ut_user[0] = '0' + me;
    setutent();
    struct utmp *put = pututline(&login);
    meet();
    say(out, "%s\n", put ? put->ut_user : "none");
    login.ut_id[0] = 'x';
    login.ut_line[3] = 'x';
    setutxent();
    pututxline((struct utmpx *)&login);
    updwtmp(file, &login);
    updwtmpx(file, (struct utmpx *)&login);
    setutent();
    for (int i = 0; i < 5; i++) {
        struct utmp *found = i % 2 ? getutent() : (struct utmp *)getutxent();
        meet();
        say(out, "%s %d\n", found ? found->ut_line : "none", found ? found->ut_pid : 0);
    }
    endutent();
    setutent();
    struct utmp *by_line = getutline(&login), copy, *copied = NULL;
    meet();
    say(out, "%s\n", by_line ? by_line->ut_id : "none");
    endutxent();
    struct utmpx *by_id = getutxid((struct utmpx *)&login), *more = getutxline((struct utmpx *)&login);
    say(out, "%d %d\n", by_id != NULL, more != NULL);
    setutent();
    struct utmp *other = getutid(&login);
    say(out, "%d\n", other != NULL);
    setutent();
    say(out, "%d %d\n", getutent_r(&copy, &copied), copied == &copy);
    setutent();
    say(out, "%d %d %d\n", getutid_r(&login, &copy, &copied), getutline_r(&login, &copy, &copied), getutid_r(&login, &copy, &copied));
    utmpxname("/var/run/utmp");
}

static const struct { const char *name, *functions; void (*run)(int, struct text *); } cases[] = {
    { "groups", "getgrent setgrent endgrent", groups },
    { "users", "getpwent setpwent endpwent", users },
    { "shadows", "getspent setspent endspent", shadows },
    { "shadow_groups", "getsgent setsgent endsgent", shadow_groups },
    { "services", "getservent setservent endservent", services },
    { "protocols", "getprotoent setprotoent endprotoent", protocols },
    { "networks", "getnetent setnetent endnetent", networks },
    { "hosts", "gethostent sethostent endhostent", hosts },
    { "programs", "getrpcent setrpcent endrpcent", programs },
    { "aliases", "getaliasent setaliasent endaliasent", aliases },
    { "file_systems", "getfsent setfsent endfsent", file_systems },
    { "terminals", "getttyent setttyent endttyent", terminals },
    { "shells", "getusershell setusershell endusershell", shells },
    { "groups_r", "getgrent_r", groups_r },
    { "users_r", "getpwent_r", users_r },
    { "shadows_r", "getspent_r", shadows_r },
    { "shadow_groups_r", "getsgent_r", shadow_groups_r },
    { "services_r", "getservent_r", services_r },
    { "protocols_r", "getprotoent_r", protocols_r },
    { "networks_r", "getnetent_r", networks_r },
    { "hosts_r", "gethostent_r", hosts_r },
    { "programs_r", "getrpcent_r", programs_r },
    { "aliases_r", "getaliasent_r", aliases_r },
    { "network_groups", "setnetgrent getnetgrent getnetgrent_r endnetgrent innetgr", network_groups },
    { "file_systems_by_name", "getfsfile getfsspec getttynam", file_systems_by_name },
    { "group_name", "getgrnam", group_name },
    { "group_number", "getgrgid", group_number },
    { "user_name", "getpwnam", user_name },
    { "user_number", "getpwuid", user_number },
    { "shadow_name", "getspnam", shadow_name },
    { "shadow_line", "sgetspent", shadow_line },
    { "shadow_group_name", "getsgnam", shadow_group_name },
    { "shadow_group_line", "sgetsgent", shadow_group_line },
    { "service_name", "getservbyname", service_name },
    { "service_port", "getservbyport", service_port },
    { "protocol_name", "getprotobyname", protocol_name },
    { "protocol_number", "getprotobynumber", protocol_number },
    { "program_name", "getrpcbyname", program_name },
    { "program_number", "getrpcbynumber", program_number },
    { "alias_name", "getaliasbyname", alias_name },
    { "host_name", "gethostbyname", host_name },
    { "host_name_of_kind", "gethostbyname2", host_name_of_kind },
    { "host_address", "gethostbyaddr", host_address },
    { "net_name", "getnetbyname", net_name },
    { "net_number", "getnetbyaddr", net_number },
    { "streams", "fgetpwent fgetgrent fgetspent fgetsgent getmntent", streams },
    { "random_numbers", "rand srand random srandom initstate setstate", random_numbers },
    { "congruent_numbers", "drand48 erand48 lrand48 nrand48 mrand48 jrand48 srand48 seed48 lcong48", congruent_numbers },
    { "gammas", "lgamma lgammaf lgammal gamma gammaf gammal lgammaf32 lgammaf64 lgammaf32x lgammaf64x signgam __signgam", gammas },
    { "tokens", "strtok", tokens },
    { "times", "gmtime localtime ctime asctime", times },
    { "zones", "gmtime_r timegm strptime getdate_r", zones },
    { "own_zones", "tzset localtime_r ctime_r mktime timelocal strftime strftime_l wcsftime wcsftime_l tzname __tzname timezone __timezone daylight __daylight", own_zones },
    { "dates", "getdate getdate_err", dates },
    { "texts", "ecvt fcvt qecvt qfcvt l64a ether_ntoa ether_aton inet_nsap_ntoa cuserid getlogin", texts },
    { "hashes", "crypt", hashes },
    { "file_names", "tmpnam", file_names },
    { "terminal_names", "ptsname ttyname ttyslot", terminal_names },
    { "characters", "mbrtowc mbrlen mbrtoc32 mbrtoc16 mbtowc mblen mbsnrtowcs mbsrtowcs c16rtomb c32rtomb wcrtomb wctomb wcsrtombs wcsnrtombs", characters },
    { "checked_characters", "__mbsnrtowcs_chk __mbrlen __mbrtowc __mbsrtowcs_chk __wcsrtombs_chk __wcsnrtombs_chk __wcrtomb_chk __wctomb_chk", checked_characters },
    { "answers_to_questions", "rpmatch", answers_to_questions },
    { "messages", "gettext dgettext __dgettext dcgettext __dcgettext ngettext dngettext dcngettext textdomain bindtextdomain bind_textdomain_codeset", messages },
    { "options", "getopt getopt_long getopt_long_only optarg optind opterr optopt", options },
    { "options_of_posix", "__posix_getopt", options_of_posix },
    { "tables", "hcreate hsearch hdestroy", tables },
    { "expressions", "re_comp re_exec re_set_syntax re_syntax_options re_compile_pattern", expressions },
    { "logins", "utmpname setutent pututline getutent getutxent setutxent pututxline updwtmp updwtmpx endutent getutline endutxent getutxid getutxline getutid getutent_r getutid_r getutline_r utmpxname", logins },
};

int count(void) { return sizeof cases / sizeof cases[0]; }
const char *name(int number) { return cases[number].name; }
const char *functions(int number) { return cases[number].functions; }
void run(int number, int me, void (*wait)(void), char *text, size_t size)
{
    struct text out = { text, text + size };
    *text = 0;
    meet = wait;
    cases[number].run(me, &out);
}
