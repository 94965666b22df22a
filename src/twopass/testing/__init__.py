"""Fakes that check themselves, for tests of twopass and of harnesses."""
