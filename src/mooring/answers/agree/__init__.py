"""`mooring agree`: of the bindings in a recording, how many would Mooring have made as well?"""
