from hypothesis import settings

# timing never decides a test, and a run can be repeated; --hypothesis-seed looks elsewhere
settings.register_profile("pmldesign", deadline=None, derandomize=True)
settings.load_profile("pmldesign")
