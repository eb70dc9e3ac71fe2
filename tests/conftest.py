from hypothesis import settings

# timing never decides a test
settings.register_profile("pmldesign", deadline=None)
settings.load_profile("pmldesign")
