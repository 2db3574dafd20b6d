//! The table of the C library's functions and variables that keep something for a process.

use Class::{Alone, Given, Own, Process};

/// What becomes of a function's state where several programs use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Each domain has its own.
    Own,
    /// One domain at a time uses it.
    Alone,
    /// It has no state but what the caller gives it, or what belongs to the calling thread.
    Given,
    /// It belongs to the process, or to the machine.
    Process,
}

/// Functions and variables of one kind.
#[derive(Debug)]
pub(crate) struct Row {
    /// The names, between spaces.
    pub names: &'static str,
    pub class: Class,
    /// By what means; or why, and what to do instead.
    pub how: &'static str,
}

const fn row(class: Class, names: &'static str, how: &'static str) -> Row {
    Row { names, class, how }
}

/// All of them, in the order of the page.
pub(crate) const TABLE: &[Row] = &[
    row(Own, "getgrent getgrent_r setgrent endgrent", LIST),
    row(Own, "getpwent getpwent_r setpwent endpwent", LIST),
    row(Own, "getspent getspent_r setspent endspent", LIST),
    row(Own, "getsgent getsgent_r setsgent endsgent", LIST),
    row(Own, "getservent getservent_r setservent endservent", LIST),
    row(Own, "getprotoent getprotoent_r setprotoent endprotoent", LIST),
    row(Own, "getnetent getnetent_r setnetent endnetent", LIST),
    row(Own, "gethostent gethostent_r sethostent endhostent", LIST),
    row(Own, "getrpcent getrpcent_r setrpcent endrpcent", LIST),
    row(Own, "getaliasent getaliasent_r setaliasent endaliasent", LIST),
    row(Own, "getfsent getfsspec getfsfile setfsent endfsent", LIST),
    row(Own, "getttyent getttynam setttyent endttyent", LIST),
    row(Own, "getusershell setusershell endusershell", LIST),
    row(Own, "setnetgrent getnetgrent getnetgrent_r endnetgrent", LIST),
    row(
        Own,
        "getutent getutent_r getutid getutid_r getutline getutline_r setutent endutent utmpname",
        LIST,
    ),
    row(Own, "getutxent getutxid getutxline setutxent endutxent utmpxname", LIST),
    row(Own, "getgrnam getgrgid getpwnam getpwuid getspnam getsgnam sgetspent sgetsgent", ANSWER),
    row(Own, "getservbyname getservbyport getprotobyname getprotobynumber", ANSWER),
    row(Own, "gethostbyname gethostbyname2 gethostbyaddr getnetbyname getnetbyaddr", ANSWER),
    row(Own, "getrpcbyname getrpcbynumber getaliasbyname", ANSWER),
    row(
        Own,
        "fgetgrent fgetpwent fgetspent fgetsgent getmntent",
        "memory of the domain, filled by the `_r` form; the position is the stream's, which the caller gives",
    ),
    row(
        Own,
        "rand srand random srandom initstate setstate",
        "a generator of the domain with glibc's first seed (`random_r`), so the numbers are glibc's",
    ),
    row(
        Own,
        "drand48 erand48 lrand48 nrand48 mrand48 jrand48 srand48 seed48 lcong48",
        "parameters of the domain (`drand48_r` and its relatives)",
    ),
    row(
        Own,
        "fcntl fcntl64 lockf lockf64",
        "record locks are the domain's: those of an open file description that it has for each file",
    ),
    row(
        Own,
        "wait waitpid wait3 wait4 waitid forkpty",
        "the children that code of the domain has made, and no others",
    ),
    row(Own, "strtok", "the rest of the text is the domain's (`strtok_r`)"),
    row(
        Own,
        "gmtime localtime ctime asctime",
        "the structure and the text are the domain's (`gmtime_r`, `localtime_r`). The time zone is the process's, as below",
    ),
    row(Own, "getdate getdate_err", "`getdate_r`, with a structure and a variable of the domain"),
    row(
        Own,
        "syslog __syslog_chk vsyslog __vsyslog_chk openlog closelog setlogmask",
        "name, options, facility, mask and socket are the domain's. The loader puts the message together as glibc does",
    ),
    row(
        Own,
        "gettext dgettext __dgettext dcgettext __dcgettext ngettext dngettext dcngettext textdomain bindtextdomain bind_textdomain_codeset",
        "the text domain and the bindings are the domain's. What a domain has not bound is bound as the process has it",
    ),
    row(Own, "setlocale localeconv", "a locale of the domain, which its threads use (`uselocale`)"),
    row(Own, "mblen mbtowc wctomb __wctomb_chk", "the state between calls is the domain's"),
    row(
        Own,
        "mbrlen __mbrlen mbrtowc __mbrtowc mbrtoc16 mbrtoc32 c16rtomb c32rtomb wcrtomb __wcrtomb_chk mbsrtowcs __mbsrtowcs_chk mbsnrtowcs __mbsnrtowcs_chk wcsrtombs __wcsrtombs_chk wcsnrtombs __wcsnrtombs_chk",
        "the state that counts where the caller gives none is the domain's",
    ),
    row(
        Own,
        "getopt __posix_getopt getopt_long getopt_long_only optarg optind opterr optopt",
        "the place in the arguments and the variables are the domain's. The loader follows getopt(3)",
    ),
    row(Own, "hcreate hsearch hdestroy", "a table of the domain (`hsearch_r`)"),
    row(
        Own,
        "re_comp re_exec re_set_syntax re_syntax_options",
        "an expression and a syntax of the domain",
    ),
    row(
        Own,
        "lgamma lgammaf lgammal lgammaf32 lgammaf32x lgammaf64 lgammaf64x gamma gammaf gammal signgam __signgam",
        "the sign is the domain's (`lgamma_r`)",
    ),
    row(
        Own,
        "ecvt fcvt qecvt qfcvt l64a ether_aton ether_ntoa inet_nsap_ntoa ttyname ptsname getlogin cuserid tmpnam getpass",
        "the text is in memory of the domain. `getpass` asks for one domain at a time, as there is one terminal",
    ),
    row(Own, "crypt", "memory of the domain (`crypt_r`), where libcrypt exists once"),
    row(
        Own,
        "setenv unsetenv putenv clearenv",
        "for a domain with an environment of its own; else they change the process's under one lock",
    ),
    row(
        Own,
        "pthread_key_create pthread_key_delete pthread_getspecific pthread_setspecific tss_create tss_delete tss_get tss_set",
        "keys of the loader's, which end with the domain",
    ),
    row(
        Alone,
        "tzset localtime_r gmtime_r ctime_r mktime timelocal timegm strftime strftime_l wcsftime wcsftime_l strptime getdate_r",
        "the time zone, under glibc's lock. A fork waits until no thread has it, so no child finds it locked",
    ),
    row(Alone, "innetgr", "the group of the network that it reads"),
    row(Alone, "rpmatch", "the expressions of the locale it was last called with"),
    row(Alone, "re_compile_pattern", "the syntax, which is the domain's while it compiles"),
    row(Alone, "ttyslot", "the list of terminals that it goes through"),
    row(
        Alone,
        "pututline pututxline login logout logwtmp updwtmp updwtmpx",
        "the file's name and position. Other processes are kept out by locks of the file, as in glibc",
    ),
    row(Given, "strerror strsignal inet_ntoa", "a buffer of the calling thread (glibc 2.32)"),
    row(Given, "h_errno errno _res res_init herror", "a variable of the calling thread"),
    row(
        Given,
        "readdir readdir64 readdir_r fts_read fts_children fts_open fts_close",
        "the stream, which the caller has opened",
    ),
    row(
        Given,
        "ftw nftw glob wordexp",
        "the call's own state. Names of users are looked up by the `_r` forms",
    ),
    row(Given, "nl_langinfo", "the calling thread's locale, which is the domain's"),
    row(
        Given,
        "gcvt qgcvt getpw getsubopt basename __xpg_basename dirname ctermid",
        "memory of the caller, or a constant",
    ),
    row(
        Given,
        "catopen catgets iconv_open iconv argz_add getgrouplist initgroups",
        "what the caller has opened, or the call's own state",
    ),
    row(
        Given,
        "bindresvport",
        "a number from which it looks for a free port, under a lock of glibc's",
    ),
    row(Given, "sleep", "nothing: it waits in the kernel"),
    row(
        Given,
        "mallinfo mallinfo2 valloc pvalloc",
        "the heap, which has locks of its own. The figures are the process's",
    ),
    row(Given, "getlogin_r", "the caller's memory"),
    row(
        Given,
        "mktemp mkstemp tempnam",
        "names that the kernel has nothing under, from a random number",
    ),
    row(
        Process,
        "tzname timezone daylight __tzname __timezone __daylight",
        "`tzset` reads `TZ` from the process's environment into one time zone. Use a zone by its name (`zoneinfo`)",
    ),
    row(
        Process,
        "environ __environ _environ",
        "unless the domain has an environment of its own. What glibc reads for itself is the process's",
    ),
    row(Process, "exit _exit abort", "they end the process"),
    row(
        Process,
        "chdir fchdir umask chroot setuid setgid setpriority nice setrlimit getrusage",
        "the kernel keeps them by process. Use paths from a descriptor (`openat`)",
    ),
    row(
        Process,
        "alarm ualarm setitimer getitimer sigaction signal sigvec siginterrupt",
        "signals and their handlers are the process's",
    ),
    row(
        Process,
        "stdin stdout stderr fcloseall getchar_unlocked putchar_unlocked getwchar_unlocked putwchar_unlocked",
        "three streams, of the descriptors 0, 1 and 2. `fcloseall` closes all streams of the process. Open streams of your own",
    ),
    row(
        Process,
        "program_invocation_name program_invocation_short_name __progname __progname_full",
        "they name the program that the process was started with",
    ),
    row(
        Process,
        "error error_at_line error_message_count error_one_per_line error_print_progname",
        "they write for the program that the process was started with, count its messages, and end it. Write to `stderr`",
    ),
    row(
        Process,
        "argp_parse argp_program_version argp_program_bug_address argp_program_version_hook argp_err_exit_status",
        "glibc reads the variables of the program that the process was started with. Give `argp_parse` a parser with an option `--version` of its own",
    ),
    row(
        Process,
        "obstack_alloc_failed_handler obstack_exit_failure",
        "what to do without memory. Each obstack is the caller's",
    ),
    row(
        Process,
        "fmtmsg addseverity",
        "one list of severities, under a lock of glibc's. Use numbers that no other program uses",
    ),
    row(
        Process,
        "register_printf_function register_printf_specifier register_printf_modifier register_printf_type",
        "conversions of `printf` for all of the process, and addresses of code that a domain may take with it. Format to a text first",
    ),
    row(
        Process,
        "mtrace muntrace mcheck mcheck_check_all mcheck_pedantic mprobe mallopt malloc_trim sbrk brk",
        "there is one heap of `malloc`",
    ),
    row(
        Process,
        "profil sprofil monstartup moncontrol",
        "one profile of the process, by SIGPROF. Use `perf`",
    ),
    row(
        Process,
        "rcmd rcmd_af rexec rexec_af ruserok rexecoptions __check_rhosts_file __rcmd_errstr",
        "protocols of the last century, with ports that only root has. Start `ssh`",
    ),
    row(
        Process,
        "setkey encrypt",
        "a key of DES in libcrypt, which new libraries cannot name any more. Use a library of ciphers",
    ),
    row(
        Process,
        "login_tty openpty daemon vhangup",
        "the terminal and the session are the process's",
    ),
    row(Process, "sethostid sethostname setdomainname adjtime stime", "they are the machine's"),
    row(Process, "strfry", "a generator with a seed that nobody can set: its numbers mean nothing"),
    row(
        Process,
        "aio_init gai_cancel getaddrinfo_a",
        "threads of glibc that work for all of the process, each for a request that the caller gives",
    ),
    row(
        Process,
        "sys_errlist sys_siglist h_errlist h_nerr _nl_msg_cat_cntr re_max_failures mallwatch loc1 loc2 locs",
        "constants, or variables that glibc alone uses",
    ),
];

const LIST: &str = "the domain's own copy of the list, which it reads when it asks for the first entry. One domain reads at a time";
const ANSWER: &str = "memory of the domain, filled by the `_r` form";
