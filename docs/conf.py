"""Sphinx configuration; builds without a network."""

import re
import sys
from importlib import metadata

project = "twopass"
project_copyright = "The twopass developers"
author = "The twopass developers"
release = version = metadata.version("twopass")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"twopass {release}"
html_copy_source = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

napoleon_numpy_docstring = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "show-inheritance": True}
python_maximum_signature_line_length = 88

# Every link into twopass must resolve. Links into other people's packages cannot be
# checked without their inventories, so those packages are named here.
_packages = {
    *("gymnasium", "gym", "numpy", "np", "npt", "numpy_typing"),
    *("PIL", "av", "imageio", "mcap", "structlog", "torch", "tqdm", "typer"),
    *sys.stdlib_module_names,
}
# Names that a signature shows without their package.
_names = {
    *("ActType", "ObsType", "RenderFrame", "WrapperActType", "WrapperObsType"),
    *("Env", "EnvSpec", "Wrapper", "VectorEnv", "Space", "Generator", "SeedSequence"),
    *("ArrayLike", "DTypeLike", "NDArray", "ndarray", "Path", "PathLike"),
    *("Callable", "Generator", "Iterable", "Iterator", "Mapping", "Sequence"),
}
nitpick_ignore_regex = [
    (r"py:.*", rf"({'|'.join(map(re.escape, sorted(_packages)))})(\..+)?"),
    (r"py:.*", rf"(twopass\.(recorder|playback)\.)?({'|'.join(sorted(_names))})"),
    (r"py:class", r"dict\[str"),  # a hint that autodoc cuts at its comma
]
