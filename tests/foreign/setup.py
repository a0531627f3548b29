"""What the author of such a module writes."""

from Cython.Build import cythonize
from setuptools import Extension, setup

import zerosys

setup(
    name="foreign",
    ext_modules=cythonize(
        Extension(
            "foreign",
            ["foreign.pyx"],
            include_dirs=[zerosys.get_include()],
            libraries=["numa"],  # for what is cimported from zerosys._numa
            define_macros=[("_GNU_SOURCE", None)],
        ),
        language_level=3,
    ),
)
