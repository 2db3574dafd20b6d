"""a file with groups, compressed variables, times, strings; an error"""

import tempfile

import cftime
import netCDF4
import numpy as np


def work(tell):
    with tempfile.TemporaryDirectory() as folder:
        with netCDF4.Dataset(f"{folder}/a.nc", "w") as file:
            file.createDimension("time", None)
            file.createDimension("x", 40)
            group = file.createGroup("inner/more")
            values = group.createVariable("values", "f4", ("time", "x"), zlib=True, least_significant_digit=3, fill_value=-1)
            for step in range(30):
                values[step] = np.sin(np.arange(40) * step / 9)
            values.units = "m s-1 ü"
            names = file.createVariable("names", str, ("x",))
            names[:] = np.array([f"n{i}" for i in range(40)], dtype=object)
        with netCDF4.Dataset(f"{folder}/a.nc") as file:
            variable = file["inner/more/values"]
            tell("values", np.asarray(variable[3:20, ::5]))
            tell("names", file["names"][:].tolist())
            tell("text", [variable.units, file.data_model, list(file.groups)])
        try:
            netCDF4.Dataset(f"{folder}/missing.nc")
        except FileNotFoundError as error:
            tell("error", error.strerror)
    tell("dates", str(netCDF4.num2date([0, 400.5], "days since 2000-01-01", "360_day")))
    tell("back", float(cftime.date2num(cftime.DatetimeNoLeap(2001, 3, 1), "hours since 2000-01-01", "noleap")))
