"""sources formatted by compiled modules, an error's place"""

import black
from black import linegen

SOURCE = "def f(a,b = 3,*,c:int=4)->Dict [str,int]:\n  x = {'a':1,\n 'b':2,}\n  return [ i for i in range(10) if i%2==0 and not i in (1,2,3) and some_long_name_here(i) or other_name(i)]\n"


def work(tell):
    tell("compiled", linegen.__file__.endswith(".so"))
    for length in (40, 88, 120):
        tell(f"length {length}", black.format_str(SOURCE * 20, mode=black.Mode(line_length=length)))
    try:
        black.format_str("def f(:\n  pass", mode=black.Mode())
    except black.InvalidInput as error:
        tell("error", str(error))
